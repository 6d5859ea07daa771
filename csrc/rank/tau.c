/* Kendall's tau-b and ordered pair accuracy from one exact count of pairs. */
#include "rank/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "rank/sort.h"

enum { SHORT_RUN = 16 };

/* Sorts a (n,) ascending by insertion; returns the number of inversions. */
static int64_t invert_short(int32_t *a, int64_t n) {
    int64_t inversions = 0;
    for (int64_t i = 1; i < n; i++) {
        int32_t value = a[i];
        int64_t j = i;
        for (; j > 0 && a[j - 1] > value; j--) a[j] = a[j - 1];
        a[j] = value;
        inversions += i - j;
    }
    return inversions;
}

/* Merges sorted a (na,) and b (nb,) into out; returns the pairs with a's value greater. The choice of the
   smaller is a select, not a branch: it is a coin toss that no predictor gets right. */
static int64_t merge(const int32_t *a, int64_t na, const int32_t *b, int64_t nb, int32_t *out) {
    int64_t inversions = 0, i = 0, j = 0;
    while (i < na && j < nb) {
        int32_t left = a[i], right = b[j];
        int take_right = left > right;
        *out++ = take_right ? right : left;
        inversions += take_right ? na - i : 0;
        j += take_right;
        i += !take_right;
    }
    memcpy(out, a + i, (size_t)(na - i) * sizeof *a);
    memcpy(out + (na - i), b + j, (size_t)(nb - j) * sizeof *b);
    return inversions;
}

/* Pairs p < q with a[p] > a[q]; a and spare (n,) are overwritten. */
static int64_t count_inversions(int32_t *a, int32_t *spare, int64_t n) {
    int64_t inversions = 0;
    for (int64_t start = 0; start < n; start += SHORT_RUN)
        inversions += invert_short(a + start, n - start < SHORT_RUN ? n - start : SHORT_RUN);
    for (int64_t width = SHORT_RUN; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            int64_t middle = start + width < n ? start + width : n;
            int64_t end = start + 2 * width < n ? start + 2 * width : n;
            inversions += merge(a + start, middle - start, a + middle, end - middle, spare + start);
        }
        int32_t *swap = a;
        a = spare;
        spare = swap;
    }
    return inversions;
}

static int64_t choose2(int64_t n) { return n * (n - 1) / 2; }

/* items (n,) sorted by key: dense rank (n,) of each index; returns the number of tied pairs. */
static int64_t dense_ranks(const tg_keyed *items, int64_t n, int32_t *rank) {
    int64_t tied = 0, run = 0;
    int32_t value = 0;
    for (int64_t p = 0; p < n; p++) {
        if (p > 0 && items[p].key != items[p - 1].key) {
            tied += choose2(run);
            run = 0;
            value++;
        }
        run++;
        rank[items[p].index] = value;
    }
    return tied + choose2(run);
}

/* items (n,) sorted by y, then x: ties in y, ties in both; fills order (n,) with the x ranks in that order.
 */
static void walk_y(const tg_keyed *items, int64_t n, const int32_t *x_rank, int32_t *order, tg_pairs *pairs) {
    int64_t run_y = 0, run_both = 0;
    for (int64_t p = 0; p < n; p++) {
        order[p] = x_rank[items[p].index];
        int new_y = p == 0 || items[p].key != items[p - 1].key;
        if (new_y || order[p] != order[p - 1]) {
            pairs->tied_both += choose2(run_both);
            run_both = 0;
        }
        if (new_y) {
            pairs->tied_y += choose2(run_y);
            run_y = 0;
        }
        run_y++;
        run_both++;
    }
    pairs->tied_y += choose2(run_y);
    pairs->tied_both += choose2(run_both);
}

tg_status tg_count_pairs(int64_t n, const uint64_t *x_keys, const uint64_t *y_keys, tg_pairs *pairs,
                         tg_error *err) {
    *pairs = (tg_pairs){0};
    if (n < 2) return TG_OK;
    if (n > INT32_MAX)
        return tg_fail(err, TG_E_SHAPE, "metrics take at most 2147483647 entries, got %lld", (long long)n);
    tg_keyed *items = malloc((size_t)n * (2 * sizeof *items + 3 * sizeof(int32_t)));
    if (items == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to count pairs of %lld entries", (long long)n);
    tg_keyed *spare = items + n;
    int32_t *x_rank = (int32_t *)(spare + n), *order = x_rank + n, *merged = order + n;
    for (int64_t i = 0; i < n; i++) items[i] = (tg_keyed){x_keys[i], i};
    tg_sort_keyed(items, spare, n);
    pairs->all = choose2(n);
    pairs->tied_x = dense_ranks(items, n, x_rank);
    for (int64_t p = 0; p < n; p++) items[p].key = y_keys[items[p].index];
    tg_sort_keyed(items, spare, n); /* stable: equal y stay in the order of x, so they add no inversions */
    walk_y(items, n, x_rank, order, pairs);
    pairs->discordant = count_inversions(order, merged, n);
    free(items);
    return TG_OK;
}

static tg_status pairs_of(tg_numbers scores, tg_numbers runtimes, tg_pairs *pairs, tg_error *err) {
    uint64_t *keys = malloc((size_t)scores.n * 2 * sizeof *keys + 1);
    if (keys == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld keys", (long long)scores.n);
    tg_status status = tg_number_keys(scores, "scores", keys, err);
    if (status == TG_OK) status = tg_number_keys(runtimes, "runtimes", keys + scores.n, err);
    if (status == TG_OK) status = tg_count_pairs(scores.n, keys, keys + scores.n, pairs, err);
    free(keys);
    return status;
}

tg_status tg_kendall_tau(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err) {
    (void)k;
    tg_pairs p;
    *value = 0;
    tg_status status = pairs_of(scores, runtimes, &p, err);
    if (status != TG_OK || p.tied_x == p.all || p.tied_y == p.all) return status;
    int64_t balance = p.all - p.tied_x - p.tied_y + p.tied_both - 2 * p.discordant;
    double tau = (double)balance / sqrt((double)(p.all - p.tied_x)) / sqrt((double)(p.all - p.tied_y));
    *value = tau > 1 ? 1 : tau < -1 ? -1 : tau;
    return TG_OK;
}

tg_status tg_opa(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err) {
    (void)k;
    tg_pairs p;
    *value = 0;
    tg_status status = pairs_of(scores, runtimes, &p, err);
    if (status != TG_OK || p.tied_y == p.all) return status;
    int64_t concordant = p.all - p.tied_x - p.tied_y + p.tied_both - p.discordant;
    *value = (double)concordant / (double)(p.all - p.tied_y);
    return TG_OK;
}
