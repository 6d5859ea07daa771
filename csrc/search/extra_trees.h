/* Extremely randomized trees (Geurts, Ernst, Wehenkel 2006) as the surrogate of a tuner: they are grown on what was
   measured, and the candidates go down each tree while it grows, so no tree is kept. */
#ifndef TG_EXTRA_TREES_H
#define TG_EXTRA_TREES_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

enum { TG_TREES_MOST = 4096 };

typedef struct tg_trees {
    int32_t trees, leaf, tries; /* how many; least rows of a leaf; columns tried per split */
    uint64_t key;
} tg_trees;

/* found(trees, m): what each tree says of pool(m, F), having been grown on x(n, F), y(n); n >= 1. Same bits for any number
   of threads. */
tg_status tg_extra_trees(const tg_trees *how, const double *x, const double *y, int64_t n, int64_t F,
                         const double *pool, int64_t m, float *found, tg_cancel *cancel, tg_error *err);

#endif
