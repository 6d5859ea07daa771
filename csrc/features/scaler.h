/* Column-wise standardisation: running mean and sum of squared deviations in float64, and (x - mean) / scale.
 */
#ifndef TG_SCALER_H
#define TG_SCALER_H

#include <stdint.h>

#include "base/status.h"

/* n rows of F numbers: row i is x[i * ld .. i * ld + F). */
typedef struct tg_rows {
    const float *x;
    int64_t n, F, ld;
    const char *name; /* for errors */
} tg_rows;

/* TG_E_DATA naming the first value that is not finite. */
tg_status tg_rows_finite(const tg_rows *x, tg_error *err);

/* Merge the n rows of x (n,F) into a fit over *count rows with mean (F,) and m2 (F,) (sum of squared
   deviations). TG_E_DATA for a value that is not finite; the fit is then untouched. */
tg_status tg_scaler_merge(int64_t *count, double *mean, double *m2, const tg_rows *x, tg_error *err);

/* scale (F,) = sqrt(m2 / count), 1 for constant columns. */
void tg_scaler_scale(double *scale, const double *m2, int64_t count, int64_t F);

/* y (n,F) = (x (n,F) - mean (F,)) / scale (F,). TG_E_DATA when a value or its result is not finite. */
tg_status tg_scaler_transform(float *y, const tg_rows *x, const double *mean, const double *scale,
                              tg_error *err);

#endif
