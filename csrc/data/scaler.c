#include "data/scaler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows per partial fit. The sum of 4096 equal float32 is exact in float64, so a constant column has exactly
   its value as mean and 0 as m2. */
enum { CHUNK = 4096 };

static tg_status check_finite(const float *x, int64_t n, int64_t F, tg_error *err) {
    for (int64_t i = 0; i < n; i++) {
        int bad = 0;
        for (int64_t f = 0; f < F; f++) bad |= !(fabsf(x[i * F + f]) <= FLT_MAX);
        for (int64_t f = 0; bad && f < F; f++)
            if (!(fabsf(x[i * F + f]) <= FLT_MAX))
                return tg_fail_field(err, "x", "finite values", "%g (row %lld, column %lld)",
                                     (double)x[i * F + f], (long long)i, (long long)f);
    }
    return TG_OK;
}

/* Mean and m2 (both (F,)) of the n >= 1 rows of x, in two passes. */
static void fit_chunk(double *mean, double *m2, const float *x, int64_t n, int64_t F) {
    memset(mean, 0, (size_t)F * sizeof *mean);
    memset(m2, 0, (size_t)F * sizeof *m2);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < F; f++) mean[f] += x[i * F + f];
    for (int64_t f = 0; f < F; f++) mean[f] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < F; f++) {
            double d = x[i * F + f] - mean[f];
            m2[f] += d * d;
        }
}

tg_status tg_scaler_merge(int64_t *count, double *mean, double *m2, const float *x, int64_t n, int64_t F,
                          tg_error *err) {
    tg_status status = check_finite(x, n, F, err);
    if (status != TG_OK) return status;
    double *part = malloc((size_t)(2 * F + 1) * sizeof *part);
    if (part == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to fit %lld columns", (long long)F);
    double *part_m2 = part + F;
    for (int64_t start = 0; start < n; start += CHUNK) {
        int64_t rows = n - start < CHUNK ? n - start : CHUNK;
        fit_chunk(part, part_m2, x + start * F, rows, F);
        double share = (double)rows / (double)(*count + rows);
        for (int64_t f = 0; f < F; f++) { /* Chan, Golub, LeVeque 1979 */
            double delta = part[f] - mean[f];
            mean[f] += *count == 0 ? part[f] : delta * share;
            m2[f] += part_m2[f] + delta * delta * share * (double)*count;
        }
        *count += rows;
    }
    free(part);
    return TG_OK;
}

void tg_scaler_scale(double *scale, const double *m2, int64_t count, int64_t F) {
    for (int64_t f = 0; f < F; f++) {
        scale[f] = count > 0 ? sqrt(m2[f] / (double)count) : 0.0;
        if (scale[f] == 0.0) scale[f] = 1.0;
    }
}

tg_status tg_scaler_transform(float *y, const float *x, const double *mean, const double *scale, int64_t n,
                              int64_t F, tg_error *err) {
    for (int64_t i = 0; i < n; i++) {
        int bad = 0;
        for (int64_t f = 0; f < F; f++) {
            double z = (x[i * F + f] - mean[f]) / scale[f];
            bad |= !(fabs(z) <= FLT_MAX);
            y[i * F + f] = (float)z;
        }
        for (int64_t f = 0; bad && f < F; f++)
            if (!(fabs((x[i * F + f] - mean[f]) / scale[f]) <= FLT_MAX))
                return tg_fail_field(err, "x", "finite values that stay finite when scaled",
                                     "%g (row %lld, column %lld)", (double)x[i * F + f], (long long)i,
                                     (long long)f);
    }
    return TG_OK;
}
