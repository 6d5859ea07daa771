#include "score/together.h"

#include <math.h>
#include <stdlib.h>

#include "base/cholesky.h"
#include "base/parallel.h"
#include "base/rng.h"

static const double TWO_PI = 6.283185307179586, JITTER = 1e-6, TINY = 1e-300;

/* Mean of the fastest so far and a row, in four sums. */
static double expected(const double *row, const double *fastest, const double *weight, int64_t samples) {
    double sum[4] = {0};
    int64_t s = 0;
    for (; s + 4 <= samples; s += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += (weight == NULL ? 1.0 : weight[s + j]) *
                      (row[s + j] < fastest[s + j] ? row[s + j] : fastest[s + j]);
    for (; s < samples; s++)
        sum[0] += (weight == NULL ? 1.0 : weight[s]) * (row[s] < fastest[s] ? row[s] : fastest[s]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The one that is next, of those that are not chosen: there is one. `value` (n) is room, NaN for the chosen. */
static int64_t next(const double *values, int64_t n, int64_t samples, const double *weight,
                    const double *fastest, double *value) {
#pragma omp parallel for schedule(static) num_threads(tg_threads(3.0 * (double)n * (double)samples))
    for (int64_t i = 0; i < n; i++) {
        if (isnan(value[i])) continue;
        const double found = expected(values + i * samples, fastest, weight, samples);
        value[i] = isnan(found) ? HUGE_VAL : found; /* of values that are not finite */
    }
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(value[i]) && (best < 0 || value[i] < value[best])) best = i;
    return best;
}

tg_status tg_fastest_together(const double *values, int64_t n, int64_t samples, const double *weight,
                              int64_t count, int64_t *chosen, tg_cancel *cancel, tg_error *err) {
    double *value = calloc((size_t)(n + samples) + 1, sizeof *value), *fastest = value + n;
    if (value == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    for (int64_t s = 0; s < samples; s++) fastest[s] = HUGE_VAL;
    tg_status status = TG_OK;
    for (int64_t c = 0; c < count && status == TG_OK; c++) {
        const int64_t one = next(values, n, samples, weight, fastest, value);
        chosen[c] = one;
        value[one] = NAN;
        for (int64_t s = 0; s < samples; s++)
            if (values[one * samples + s] < fastest[s]) fastest[s] = values[one * samples + s];
        if (tg_cancelled(cancel)) status = tg_fail(err, TG_E_CANCELLED, "interrupted");
    }
    free(value);
    return status;
}

/* A pair of standard normal numbers of sample s and s + 1 (Box and Muller 1958). */
static void normals(uint64_t key, int64_t s, double to[2]) {
    const double away = sqrt(-2 * log(1 - tg_uniform(key, (uint64_t)s))),
                 angle = TWO_PI * tg_uniform(key, (uint64_t)s + 1);
    to[0] = away * cos(angle);
    to[1] = away * sin(angle);
}

/* values (n, samples): mean + L times standard normal numbers, which are made once in z of that size. */
static void draw(const double *mean, const double *L, int64_t n, int64_t samples, uint64_t seed, double *z,
                 double *values) {
#pragma omp parallel for schedule(static) num_threads(tg_threads(50.0 * (double)n * (double)samples))
    for (int64_t i = 0; i < n; i++)
        for (int64_t s = 0; s < samples; s += 2) {
            double pair[2];
            normals(tg_key(seed, (uint64_t)i), s, pair);
            z[i * samples + s] = pair[0];
            if (s + 1 < samples) z[i * samples + s + 1] = pair[1];
        }
#pragma omp parallel for schedule(dynamic, 8) num_threads(tg_threads((double)n *(double)n *(double)samples))
    for (int64_t i = 0; i < n; i++) {
        double *row = values + i * samples;
        for (int64_t s = 0; s < samples; s++) row[s] = mean[i];
        for (int64_t k = 0; k <= i; k++)
            for (int64_t s = 0; s < samples; s++) row[s] += L[i * n + k] * z[k * samples + s];
    }
}

tg_status tg_normal_together(const double *mean, double *covariance, int64_t n, int64_t samples,
                             uint64_t seed, int64_t count, int64_t *chosen, tg_cancel *cancel,
                             tg_error *err) {
    double most = TINY;
    for (int64_t i = 0; i < n; i++) most = fmax(most, covariance[i * n + i]);
    for (int64_t i = 0; i < n; i++) covariance[i * n + i] += JITTER * most;
    if (!tg_cholesky(covariance, n, 0))
        return tg_fail_field(err, "covariance", "a definite one", "another: the process has no factor");
    double *values = malloc((size_t)(2 * n * samples) * sizeof *values + 1);
    if (values == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld samples", (long long)samples);
    draw(mean, covariance, n, samples, seed, values + n * samples, values);
    const tg_status status = tg_fastest_together(values, n, samples, NULL, count, chosen, cancel, err);
    free(values);
    return status;
}
