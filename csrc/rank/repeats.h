/* Noise, modes and shifts of a machine, from its repeated measurements of equal configs. */
#ifndef TG_REPEATS_H
#define TG_REPEATS_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_repeats {
    int64_t n;                      /* runtimes of configs that occur several times; 0: nothing else is set */
    double noise_median, noise_max; /* slowest / fastest - 1 of a config, over these configs */
    double modes;                   /* relative distance of two modes, 0 where there is one */
    int64_t row;                    /* near the largest shift of the level, -1 where there is none */
    double size, error;             /* of that shift: after / before - 1, and its standard error */
} tg_repeats;

/* From the number of each config, group (C,) from 0 on, and the times (C,) in the order of measurement. Times that are
   not above 0 are left out. */
tg_status tg_repeats_of(tg_repeats *found, const int64_t *group, const double *time, int64_t C,
                        tg_error *err);

#endif
