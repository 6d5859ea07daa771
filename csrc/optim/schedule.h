/* Schedules: the learning rate of every step of a fit.
   A shape is one function in schedule.c, one row of TG_SCHEDULE_LIST and one reference in tests/reference/optim.py. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H

#include <stdint.h>

#include "base/attr.h"
#include "base/status.h"

/* Each also as "warmup-...": after a linear rise to the peak. */
#define TG_SCHEDULE_LIST(SHAPE) SHAPE(constant) SHAPE(cosine) SHAPE(linear) SHAPE(step)

#define TG_SHAPE(name) TG_SCHEDULE_##name,
typedef enum { TG_SCHEDULE_LIST(TG_SHAPE) TG_SCHEDULES } tg_schedule_shape;
#undef TG_SHAPE

typedef struct tg_schedule {
    tg_schedule_shape shape;
    int rises;
    double peak, end;                      /* learning rates */
    double warmup;                         /* share of the steps that rise */
    double decay, decay_from, decay_every; /* of drops; decay_from NAN: decay_every */
} tg_schedule;

/* What describes a schedule, as tg_schedule_read reads it; a recipe's fields are made of these rows. */
const tg_attr *tg_schedule_attrs(int *n);

/* A schedule out of {"schedule": "warmup-cosine", "learning_rate": 1e-3, ...}. */
tg_status tg_schedule_read(tg_schedule *s, const tg_json_value *given, tg_error *err);

/* The learning rate of a step, which counts from 1, of `total` steps, at most 2^62. With a rise, warm = ceil(warmup total):
   step 1 has peak / warm, step `warm` has the peak, and the shape covers the steps after it. */
double tg_schedule_rate(const tg_schedule *s, int64_t step, int64_t total);

#endif
