#include "store/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/ratio.h"
#include "rank/sort.h"

int tg_measured_divided(const tg_measured *m) {
    if (m->normalizers == NULL) return 0;
    for (int64_t i = 0; i < m->n; i++)
        if (m->whole != NULL ? m->whole[i] > 0 : m->real[i] > 0) return 1;
    return 0;
}

static double runtime(const tg_measured *m, int64_t i) {
    return m->whole != NULL ? (double)m->whole[i] : m->real[i];
}

/* Ranks of numbers from 1 on; equal ones share theirs, and NaN comes last. */
static tg_status dense_ranks(const double *x, int64_t n, int64_t *ranks, tg_error *err) {
    uint64_t *keys = calloc((size_t)(3 * n + 1), sizeof *keys);
    if (keys == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld runtimes", (long long)n);
    for (int64_t i = 0; i < n; i++) keys[i] = isnan(x[i]) ? UINT64_MAX : tg_key_f64(x[i]);
    const tg_order order = tg_sort_order(keys, n, keys + n);
    for (int64_t p = 0, rank = 0; p < n; p++) {
        rank += p == 0 || !tg_order_tied(&order, p - 1, p);
        ranks[tg_order_at(&order, p)] = rank;
    }
    free(keys);
    return TG_OK;
}

tg_status tg_measured_order(const tg_measured *m, int64_t *order, tg_error *err) {
    if (m->whole == NULL) return dense_ranks(m->real, m->n, order, err);
    if (tg_measured_divided(m)) return tg_ratio_ranks(m->n, m->whole, m->normalizers, order, err);
    memcpy(order, m->whole, (size_t)m->n * sizeof *order);
    return TG_OK;
}

/* A whole number in the order of the numbers, but for -0. */
static int64_t stand_in(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? INT64_MAX ^ bits : bits;
}

void tg_measured_across(const tg_measured *m, int64_t *order) {
    const int divided = tg_measured_divided(m);
    double sum = 0;
    for (int64_t i = 0; divided && i < m->n; i++) sum += (double)m->normalizers[i];
    const double mean = sum / (double)m->n;
    for (int64_t i = 0; i < m->n; i++)
        if (divided) order[i] = stand_in((float)(runtime(m, i) / ((double)m->normalizers[i] / mean) / 1e6));
        else order[i] = m->whole != NULL ? m->whole[i] : stand_in(m->real[i]);
}

void tg_measured_times(const tg_measured *m, double *times) {
    const int divided = tg_measured_divided(m);
    for (int64_t i = 0; i < m->n; i++) {
        times[i] = divided ? runtime(m, i) / (double)m->normalizers[i] : runtime(m, i);
        if (m->ran != NULL && !m->ran[i]) times[i] = NAN;
    }
}

tg_status tg_measured_fastest(const int64_t *order, int64_t n, int64_t *rows, tg_error *err) {
    uint64_t *keys = calloc((size_t)(3 * n + 1), sizeof *keys);
    if (keys == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld runtimes", (long long)n);
    for (int64_t i = 0; i < n; i++) keys[i] = tg_key_i64(order[i]);
    const tg_order sorted = tg_sort_order(keys, n, keys + n);
    for (int64_t p = 0; p < n; p++) rows[p] = tg_order_at(&sorted, p);
    free(keys);
    return TG_OK;
}
