#include "configs/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* round(sum / count), half to even, for any sign. */
static int64_t exact_mean(__int128 sum, int64_t count) {
    __int128 quotient = sum / count, rest = sum % count;
    if (rest < 0) quotient--, rest += count;
    if (2 * rest > count || (2 * rest == count && (quotient & 1))) quotient++;
    return (int64_t)quotient;
}

/* means (U,) of value (C,) over the rows of each distinct config. */
static tg_status group_means(int64_t *means, const int64_t *inverse, const int64_t *value, int64_t U,
                             int64_t C, tg_error *err) {
    __int128 *sum = calloc((size_t)U + 1, sizeof *sum);
    int64_t *count = calloc((size_t)U + 1, sizeof *count);
    if (sum == NULL || count == NULL) {
        free(sum);
        free(count);
        return tg_fail(err, TG_E_MEMORY, "no memory for the means of %lld configs", (long long)U);
    }
    for (int64_t c = 0; c < C; c++) {
        sum[inverse[c]] += value[c];
        count[inverse[c]]++;
    }
    for (int64_t u = 0; u < U; u++) means[u] = exact_mean(sum[u], count[u]);
    free(sum);
    free(count);
    return TG_OK;
}

static tg_status check(const int64_t *first, int64_t U, const int64_t *inverse, int64_t C, tg_error *err) {
    for (int64_t u = 0; u < U; u++)
        if ((uint64_t)first[u] >= (uint64_t)C || inverse[first[u]] != u)
            return tg_fail(err, TG_E_DATA, "first and inverse do not belong together (at %lld)",
                           (long long)u);
    for (int64_t c = 0; c < C; c++)
        if ((uint64_t)inverse[c] >= (uint64_t)U)
            return tg_fail_field(err, "inverse", "numbers in 0..U-1", "%lld at %lld", (long long)inverse[c],
                                 (long long)c);
    return TG_OK;
}

tg_status tg_rows_merge_real(int64_t *rows, double *runtimes, tg_keep keep, const int64_t *first, int64_t U,
                             const int64_t *inverse, int64_t C, const double *runtime, const uint8_t *ran,
                             tg_error *err) {
    tg_status status = check(first, U, inverse, C, err);
    int64_t *count = status == TG_OK ? calloc((size_t)U + 1, sizeof *count) : NULL;
    if (status != TG_OK) return status;
    if (count == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for the runtimes of %lld configs", (long long)U);
    memcpy(rows, first, (size_t)U * sizeof *rows);
    for (int64_t u = 0; u < U; u++) runtimes[u] = 0;
    for (int64_t c = 0; c < C; c++) {
        const int64_t u = inverse[c], best = rows[u];
        if (ran != NULL && !ran[c]) continue;
        const int better = count[u] == 0 || (keep == TG_KEEP_MIN && runtime[c] < runtime[best]);
        if (keep != TG_KEEP_MEAN && better) rows[u] = c;
        runtimes[u] += runtime[c];
        count[u]++;
    }
    for (int64_t u = 0; u < U; u++)
        if (keep != TG_KEEP_MEAN) runtimes[u] = runtime[rows[u]];
        else runtimes[u] = count[u] > 0 ? runtimes[u] / (double)count[u] : (double)NAN;
    free(count);
    return TG_OK;
}

tg_status tg_rows_merge(int64_t *rows, int64_t *runtimes, int64_t *normalizers, tg_keep keep,
                        const int64_t *first, int64_t U, const int64_t *inverse, int64_t C,
                        const int64_t *runtime, const int64_t *norm, tg_error *err) {
    const tg_status fine = check(first, U, inverse, C, err);
    if (fine != TG_OK) return fine;
    for (int64_t c = 0; c < C; c++) {
        if (keep == TG_KEEP_MIN && norm != NULL && norm[c] < 1)
            return tg_fail_field(err, "config_runtime_normalizers", "positive times in ns", "%lld at %lld",
                                 (long long)norm[c], (long long)c);
    }
    memcpy(rows, first, (size_t)U * sizeof *rows);
    if (keep == TG_KEEP_MEAN) {
        tg_status status = group_means(runtimes, inverse, runtime, U, C, err);
        return status != TG_OK || norm == NULL ? status : group_means(normalizers, inverse, norm, U, C, err);
    }
    if (keep == TG_KEEP_MIN)
        for (int64_t c = 0; c < C; c++) {
            int64_t *best = &rows[inverse[c]];
            __int128 a = runtime[c], b = runtime[*best]; /* a / norm[c] < b / norm[*best], without rounding */
            if (norm != NULL) a *= norm[*best], b *= norm[c];
            if (a < b) *best = c;
        }
    for (int64_t u = 0; u < U; u++) {
        runtimes[u] = runtime[rows[u]];
        if (norm != NULL) normalizers[u] = norm[rows[u]];
    }
    return TG_OK;
}
