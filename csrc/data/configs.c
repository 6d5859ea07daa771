#include "data/configs.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"

static const char digit_range[] = "an integer in -1..5";

static inline int is_digit(int8_t d) { return d >= TG_DIGIT_MIN && d <= TG_DIGIT_MAX; }

/* Codes per block that one thread does. */
enum { BASE7_BLOCK = 1 << 13 };
static int64_t block_at(int64_t n, int64_t t) { return n - t < BASE7_BLOCK ? n - t : BASE7_BLOCK; }

tg_status tg_base7_encode(int32_t *codes, const int8_t *digits, int64_t C, int64_t K, tg_error *err) {
    const int64_t n = C * K * TG_TENSORS;
    const tg_kernels *k = tg_kernel_table();
    int fine = 1;
#pragma omp parallel for schedule(static) reduction(& : fine) num_threads(tg_threads((double)n))
    for (int64_t t = 0; t < n; t += BASE7_BLOCK)
        fine &= k->base7_encode(block_at(n, t), digits + t * TG_LAYOUT_DIGITS, codes + t);
    if (fine) return TG_OK;
    for (int64_t t = 0; t < n; t++) {
        const int8_t *d = digits + t * TG_LAYOUT_DIGITS;
        int32_t code = 0;
        for (int i = TG_LAYOUT_DIGITS; i-- > 0;) {
            if (!is_digit(d[i]))
                return tg_fail_field(err, "digits", digit_range, "%d (row %lld, node %lld, column %lld)",
                                     d[i], (long long)(t / TG_TENSORS / K), (long long)(t / TG_TENSORS % K),
                                     (long long)(t % TG_TENSORS * TG_LAYOUT_DIGITS + i));
            code = code * TG_DIGIT_VALUES + d[i] + 1;
        }
        codes[t] = code;
    }
    return TG_OK;
}

tg_status tg_base7_decode(int8_t *digits, const int32_t *codes, int64_t C, int64_t K, tg_error *err) {
    const int64_t n = C * K * TG_TENSORS;
    const tg_kernels *k = tg_kernel_table();
    int fine = 1;
#pragma omp parallel for schedule(static) reduction(& : fine) num_threads(tg_threads((double)n))
    for (int64_t t = 0; t < n; t += BASE7_BLOCK)
        fine &= k->base7_decode(block_at(n, t), codes + t, digits + t * TG_LAYOUT_DIGITS);
    for (int64_t t = 0; !fine && t < n; t++)
        if ((uint32_t)codes[t] >= TG_LAYOUT_CODES)
            return tg_fail_field(err, "codes", "a code in 0..117648",
                                 "%ld (row %lld, node %lld, column %lld)", (long)codes[t],
                                 (long long)(t / TG_TENSORS / K), (long long)(t / TG_TENSORS % K),
                                 (long long)(t % TG_TENSORS));
    return TG_OK;
}

tg_status tg_layout_digits(int8_t *digits, const float *node_feat, int64_t N, int padding, tg_error *err) {
    for (int64_t n = 0; n < N; n++) {
        const float *row = node_feat + n * TG_NODE_FEATURES;
        int rank = 0;
        for (int i = 0; i < TG_LAYOUT_DIGITS; i++) rank += row[TG_SHAPE_COLUMN + i] != 0.0f;
        for (int i = 0; i < TG_LAYOUT_DIGITS; i++) {
            float x = row[TG_SCALED_FEATURES + i];
            if (!(x >= TG_DIGIT_MIN && x <= TG_DIGIT_MAX) || (float)(int)x != x) /* also for NaN */
                return tg_fail_field(err, "node_feat", "a layout digit, an integer in -1..5",
                                     "%g (node %lld, column %d)", (double)x, (long long)n,
                                     TG_SCALED_FEATURES + i);
            digits[n * TG_LAYOUT_DIGITS + i] = i < rank || padding == 0 ? (int8_t)x : -1;
        }
    }
    return TG_OK;
}

/* ---- what stays of equal rows ---- */

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

tg_status tg_rows_merge(int64_t *rows, int64_t *runtimes, int64_t *normalizers, tg_keep keep,
                        const int64_t *first, int64_t U, const int64_t *inverse, int64_t C,
                        const int64_t *runtime, const int64_t *norm, tg_error *err) {
    for (int64_t u = 0; u < U; u++)
        if ((uint64_t)first[u] >= (uint64_t)C || inverse[first[u]] != u)
            return tg_fail(err, TG_E_DATA, "first and inverse do not belong together (at %lld)",
                           (long long)u);
    for (int64_t c = 0; c < C; c++) {
        if ((uint64_t)inverse[c] >= (uint64_t)U)
            return tg_fail_field(err, "inverse", "numbers in 0..U-1", "%lld at %lld", (long long)inverse[c],
                                 (long long)c);
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
