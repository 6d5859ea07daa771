/* Ranks of quotients of whole numbers, without a division: what a loss takes for normalised runtimes. */
#ifndef TG_RATIO_H
#define TG_RATIO_H

#include <stdint.h>

#include "base/status.h"

/* ranks(n,) from 1 on: the place of y[i] / d[i] among the different quotients of y(n,) and d(n,), the least first;
   equal ones share theirs. Every d must be positive. */
tg_status tg_ratio_ranks(int64_t n, const int64_t *y, const int64_t *d, int64_t *ranks, tg_error *err);

#endif
