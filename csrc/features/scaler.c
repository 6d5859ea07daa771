#include "features/scaler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/parallel.h"

/* Rows per partial fit. The sum of 4096 equal float32 is exact in float64, so a constant column has exactly
   its value as mean and 0 as m2. */
enum { CHUNK = 4096 };

tg_status tg_rows_finite(const tg_rows *x, tg_error *err) {
    for (int64_t i = 0; i < x->n; i++) {
        const float *row = x->x + i * x->ld;
        int bad = 0;
        for (int64_t f = 0; f < x->F; f++) bad |= !(fabsf(row[f]) <= FLT_MAX);
        for (int64_t f = 0; bad && f < x->F; f++)
            if (!(fabsf(row[f]) <= FLT_MAX))
                return tg_fail_field(err, x->name, "finite values", "%g (row %lld, column %lld)",
                                     (double)row[f], (long long)i, (long long)f);
    }
    return TG_OK;
}

/* Mean and m2 (both (F,)) of the n >= 1 rows of x, in two passes. */
static void fit_chunk(double *mean, double *m2, const float *x, int64_t ld, int64_t n, int64_t F) {
    memset(mean, 0, (size_t)F * sizeof *mean);
    memset(m2, 0, (size_t)F * sizeof *m2);
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < F; f++) mean[f] += x[i * ld + f];
    for (int64_t f = 0; f < F; f++) mean[f] /= (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t f = 0; f < F; f++) {
            double d = x[i * ld + f] - mean[f];
            m2[f] += d * d;
        }
}

tg_status tg_scaler_merge(int64_t *count, double *mean, double *m2, const tg_rows *x, tg_error *err) {
    const int64_t n = x->n, F = x->F;
    TG_ASSERT(n == 0 || x->ld >= F);
    tg_status status = tg_rows_finite(x, err);
    if (status != TG_OK) return status;
    double *part = malloc((size_t)(2 * F + 1) * sizeof *part);
    if (part == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to fit %lld columns", (long long)F);
    double *part_m2 = part + F;
    for (int64_t start = 0; start < n; start += CHUNK) {
        int64_t rows = n - start < CHUNK ? n - start : CHUNK;
        fit_chunk(part, part_m2, x->x + start * x->ld, x->ld, rows, F);
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

/* Rows [from, to) of y; returns the first row with a value that is not finite, before or after, else -1.
   inverse (F,) = 1 / scale. */
static int64_t transform_rows(float *restrict y, const float *restrict x, int64_t ld, const double *mean,
                              const double *inverse, int64_t from, int64_t to, int64_t F) {
    for (int64_t i = from; i < to; i++) {
        int bad = 0;
        for (int64_t f = 0; f < F; f++) {
            double z = ((double)x[i * ld + f] - mean[f]) * inverse[f];
            y[i * F + f] = (float)z;
            bad |= !(__builtin_fabsf(y[i * F + f]) <= FLT_MAX);
        }
        if (bad) return i;
    }
    return -1;
}

tg_status tg_scaler_transform(float *y, const tg_rows *x, const double *mean, const double *scale,
                              tg_error *err) {
    enum { ROWS = 256 };
    const int64_t n = x->n, F = x->F;
    double *inverse = malloc((size_t)(F + 1) * sizeof *inverse);
    if (inverse == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to scale %lld columns", (long long)F);
    for (int64_t f = 0; f < F; f++) inverse[f] = 1 / scale[f];
    int64_t first = n;
#pragma omp parallel for schedule(static) reduction(min : first)                                             \
    num_threads(tg_threads(2.0 * (double)n * (double)F))
    for (int64_t start = 0; start < n; start += ROWS) {
        const int64_t end = n - start < ROWS ? n : start + ROWS;
        int64_t bad = transform_rows(y, x->x, x->ld, mean, inverse, start, end, F);
        if (bad >= 0 && bad < first) first = bad;
    }
    free(inverse);
    for (int64_t f = 0; first < n && f < F; f++)
        if (!(fabsf(y[first * F + f]) <= FLT_MAX))
            return tg_fail_field(err, x->name, "finite values that stay finite when scaled",
                                 "%g (row %lld, column %lld)", (double)x->x[first * x->ld + f],
                                 (long long)first, (long long)f);
    return TG_OK;
}
