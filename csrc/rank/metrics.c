#include "rank/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "rank/sort.h"

static double number_at(tg_numbers x, int64_t i) {
    switch (x.type) {
    case TG_NUMBER_F32: return ((const float *)x.data)[i];
    case TG_NUMBER_F64: return ((const double *)x.data)[i];
    case TG_NUMBER_I64: return (double)((const int64_t *)x.data)[i];
    default: return ((const int32_t *)x.data)[i];
    }
}

tg_status tg_number_keys(tg_numbers x, const char *name, uint64_t *keys, tg_error *err) {
    int nan = 0;
    const float *f32 = x.data;
    const double *f64 = x.data;
    const int64_t *i64 = x.data;
    const int32_t *i32 = x.data;
    switch (x.type) {
    case TG_NUMBER_F32:
        for (int64_t i = 0; i < x.n; i++) keys[i] = tg_key_f32(f32[i]), nan |= f32[i] != f32[i];
        break;
    case TG_NUMBER_F64:
        for (int64_t i = 0; i < x.n; i++) keys[i] = tg_key_f64(f64[i]), nan |= f64[i] != f64[i];
        break;
    case TG_NUMBER_I64:
        for (int64_t i = 0; i < x.n; i++) keys[i] = tg_key_i64(i64[i]);
        break;
    case TG_NUMBER_I32:
        for (int64_t i = 0; i < x.n; i++) keys[i] = tg_key_i64(i32[i]);
        break;
    }
    for (int64_t i = 0; nan && i < x.n; i++)
        if (isnan(number_at(x, i)))
            return tg_fail_field(err, name, "numbers that can be ordered", "NaN at index %lld", (long long)i);
    return TG_OK;
}

/* Items (n,) of x in ascending order, ties by index, followed by n spare ones; free with free(). */
static tg_status sorted(tg_numbers x, const char *name, tg_keyed **items, tg_error *err) {
    size_t n = (size_t)x.n;
    uint64_t *keys = malloc(n * sizeof *keys + 1);
    *items = malloc(n * 2 * sizeof **items + 1);
    tg_status status = TG_OK;
    if (keys == NULL || *items == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory to sort %lld entries", (long long)x.n);
    if (status == TG_OK) status = tg_number_keys(x, name, keys, err);
    if (status == TG_OK) {
        for (size_t i = 0; i < n; i++) (*items)[i] = (tg_keyed){keys[i], (int64_t)i};
        tg_sort_keyed(*items, *items + n, x.n);
    } else {
        free(*items);
        *items = NULL;
    }
    free(keys);
    return status;
}

/* Twice the mid-rank less (n + 1), which sums to zero: rank (n,) from sorted items (n,). */
static void centred_ranks(const tg_keyed *items, int64_t n, int64_t *rank) {
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && items[end].key == items[first].key;) end++;
        for (int64_t p = first; p < end; p++) rank[items[p].index] = first + end - n;
    }
}

static double correlation(const int64_t *x, const int64_t *y, int64_t n) {
    __int128 xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        xx += (__int128)x[i] * x[i];
        yy += (__int128)y[i] * y[i];
        xy += (__int128)x[i] * y[i];
    }
    if (xx == 0 || yy == 0) return 0;
    double rho = (double)xy / sqrt((double)xx * (double)yy);
    return rho > 1 ? 1 : rho < -1 ? -1 : rho;
}

tg_status tg_spearman(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err) {
    (void)k;
    tg_keyed *items;
    int64_t n = scores.n;
    int64_t *rank = malloc((size_t)n * 2 * sizeof *rank + 1);
    if (rank == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for ranks of %lld entries", (long long)n);
    tg_status status = sorted(scores, "scores", &items, err);
    if (status == TG_OK) {
        centred_ranks(items, n, rank);
        free(items);
        status = sorted(runtimes, "runtimes", &items, err);
    }
    if (status == TG_OK) {
        centred_ranks(items, n, rank + n);
        free(items);
        *value = correlation(rank, rank + n, n);
    }
    free(rank);
    return status;
}

/* What both top-of-the-list metrics demand. */
static tg_status check_top(tg_numbers runtimes, int64_t k, tg_error *err) {
    if (k < 1) return tg_fail(err, TG_E_CONFIG, "k must be at least 1, got %lld", (long long)k);
    if (runtimes.n < 1) return tg_fail_field(err, "runtimes", "at least one entry", "none");
    for (int64_t i = 0; i < runtimes.n; i++) {
        double y = number_at(runtimes, i);
        if (!(isfinite(y) && y > 0))
            return tg_fail_field(err, "runtimes", "finite times > 0", "%g at index %lld", y, (long long)i);
    }
    return TG_OK;
}

/* Index of the smallest runtime among items (n,). */
static int64_t fastest(tg_numbers runtimes, const tg_keyed *items, int64_t n) {
    int64_t best = items[0].index;
    const int64_t *y = runtimes.data;
    for (int64_t p = 1; p < n; p++) {
        int64_t i = items[p].index;
        int less = runtimes.type == TG_NUMBER_I64 ? y[i] < y[best]
                                                  : number_at(runtimes, i) < number_at(runtimes, best);
        if (less) best = i;
    }
    return best;
}

tg_status tg_top_k_slowdown(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err) {
    tg_keyed *items;
    tg_status status = check_top(runtimes, k, err);
    if (status == TG_OK) status = sorted(scores, "scores", &items, err);
    if (status != TG_OK) return status;
    int64_t best = fastest(runtimes, items, scores.n);
    int64_t chosen = fastest(runtimes, items, k < scores.n ? k : scores.n);
    const int64_t *y = runtimes.data;
    double more = runtimes.type == TG_NUMBER_I64 ? (double)(y[chosen] - y[best])
                                                 : number_at(runtimes, chosen) - number_at(runtimes, best);
    *value = more / number_at(runtimes, best);
    free(items);
    return TG_OK;
}

/* sum over the first k items of (best/runtime) / log2(place + 1); places count from 1. */
static double gain(tg_numbers runtimes, const tg_keyed *items, int64_t k, double best) {
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += best / (number_at(runtimes, items[p].index) * log2((double)(p + 2)));
    return sum;
}

tg_status tg_ndcg(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err) {
    tg_keyed *by_score, *by_runtime;
    tg_status status = check_top(runtimes, k, err);
    if (status == TG_OK) status = sorted(scores, "scores", &by_score, err);
    if (status != TG_OK) return status;
    status = sorted(runtimes, "runtimes", &by_runtime, err);
    if (status == TG_OK) {
        if (k > scores.n) k = scores.n;
        double best = number_at(runtimes, by_runtime[0].index);
        *value = gain(runtimes, by_score, k, best) / gain(runtimes, by_runtime, k, best);
        free(by_runtime);
    }
    free(by_score);
    return status;
}
