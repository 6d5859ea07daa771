/* Configs to measure together, if only the fastest of them will be kept: each, one after the other, minimises the expected
   value of the fastest so far. The best by mean are often alike, and if one is slow, all are. */
#ifndef TG_TOGETHER_H
#define TG_TOGETHER_H

#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

/* chosen (count), count <= n: rows of values (n, samples) in the order of their choice. weight (samples): chances, or NULL
   if all are equal. */
tg_status tg_fastest_together(const double *values, int64_t n, int64_t samples, const double *weight,
                              int64_t count, int64_t *chosen, tg_cancel *cancel, tg_error *err);

/* The same of normal samples with mean (n) and covariance (n, n), which is overwritten by the factor they are drawn with. */
tg_status tg_normal_together(const double *mean, double *covariance, int64_t n, int64_t samples,
                             uint64_t seed, int64_t count, int64_t *chosen, tg_cancel *cancel, tg_error *err);

#endif
