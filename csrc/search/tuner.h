/* The next configs that a tuner asks for: a surrogate of the measurements, a model of failures by cause, and an acquisition that weighs
   gain against ignorance. It is a pure function of its arguments. */
#ifndef TG_TUNER_H
#define TG_TUNER_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

enum { TG_CAUSES = 8 };
typedef enum tg_model_of { TG_BY_PROCESS, TG_BY_TREES } tg_model_of;

/* Measurements, in the order in which the tuner got them. */
typedef struct tg_told {
    int64_t n, F;
    const double *x;      /* (n, F) columns of the configs */
    const double *y;      /* (n) smaller is better; not read where it failed */
    const int32_t *cause; /* (n) 0: it ran; else why it failed, below TG_CAUSES */
    int gaining;          /* see tg_wanted */
} tg_told;

typedef struct tg_asked {
    tg_model_of model;
    double tau[2]; /* cross-validated, of the process and of trees */
} tg_asked;

/* Chooses `count` <= m of pool(m, F), best first. At least 2 rows ran. */
tg_status tg_tuner_choose(const tg_told *told, const double *pool, int64_t m, int64_t count, uint64_t key,
                          int64_t *chosen, tg_asked *asked, tg_cancel *cancel, tg_error *err);

/* Chooses `count` <= m of pool(m, F) before anything is known, next to x(n, F) that was chosen before: the first in the
   middle of all columns' ranges, each of the others the one of a few by chance that is farthest from all chosen ones. */
tg_status tg_tuner_begin(const double *x, int64_t n, int64_t F, const double *pool, int64_t m, int64_t count,
                         uint64_t key, int64_t *chosen, tg_cancel *cancel, tg_error *err);

#endif
