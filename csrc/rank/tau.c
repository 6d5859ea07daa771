/* Kendall's tau-b and ordered pair accuracy from one exact count of pairs. */
#include "rank/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "rank/sort.h"

enum { RUN = 8 };

/* Sorts a (RUN,) ascending and returns the number of inversions: places from all comparisons, without a
 * branch. */
static int64_t sort_run(int32_t *a) {
    int32_t sorted[RUN];
    int place[RUN] = {0};
    int64_t inversions = 0;
    for (int q = 1; q < RUN; q++)
        for (int p = 0; p < q; p++) {
            int greater = a[p] > a[q];
            inversions += greater;
            place[p] += greater;
            place[q] += !greater;
        }
    for (int p = 0; p < RUN; p++) sorted[place[p]] = a[p];
    memcpy(a, sorted, sizeof sorted);
    return inversions;
}

/* The same for a last run of n < RUN. */
static int64_t sort_rest(int32_t *a, int64_t n) {
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

/* Merges sorted a (n,) and b (n,) into out (2n,) and returns the pairs in which a's value is greater. Works
   from both ends at once, n steps each, so no end can be reached before and the two chains of loads overlap;
   and it selects, not branches, because which side is smaller is a coin toss. */
static int64_t merge_equal(const int32_t *restrict a, const int32_t *restrict b, int64_t n,
                           int32_t *restrict out) {
    int64_t i = 0, j = 0, last_i = n - 1, last_j = n - 1, inversions = 0;
    for (int64_t step = 0; step < n; step++) {
        int32_t left = a[i], right = b[j], last_left = a[last_i], last_right = b[last_j];
        int64_t take_b = left > right, take_a = last_left > last_right;
        out[step] = left > right ? right : left;
        out[2 * n - 1 - step] = last_left > last_right ? last_left : last_right;
        inversions += (n - i) & -take_b;
        inversions += (n - 1 - last_i) & (take_a - 1);
        j += take_b;
        i += 1 - take_b;
        last_i -= take_a;
        last_j -= 1 - take_a;
    }
    return inversions;
}

/* The same for a (na,) and a shorter b (nb,), at the end of a level. */
static int64_t merge_rest(const int32_t *a, int64_t na, const int32_t *b, int64_t nb, int32_t *out) {
    int64_t inversions = 0, i = 0, j = 0;
    while (i < na && j < nb) {
        int take_b = a[i] > b[j];
        *out++ = take_b ? b[j] : a[i];
        inversions += take_b ? na - i : 0;
        j += take_b;
        i += !take_b;
    }
    memcpy(out, a + i, (size_t)(na - i) * sizeof *a);
    memcpy(out + (na - i), b + j, (size_t)(nb - j) * sizeof *b);
    return inversions;
}

/* Pairs p < q with a[p] > a[q]; a and spare (n,) are overwritten. */
static int64_t count_inversions(int32_t *a, int32_t *spare, int64_t n) {
    int64_t inversions = 0, start = 0;
    for (; start + RUN <= n; start += RUN) inversions += sort_run(a + start);
    inversions += sort_rest(a + start, n - start);
    for (int64_t width = RUN; width < n; width *= 2) {
        for (start = 0; start + 2 * width <= n; start += 2 * width)
            inversions += merge_equal(a + start, a + start + width, width, spare + start);
        int64_t left = n - start < width ? n - start : width;
        inversions += merge_rest(a + start, left, a + start + left, n - start - left, spare + start);
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
    /* One root of the product, not two roots: the root of a square is exact, so a perfect order gives 1. */
    double tau = (double)balance / sqrt((double)(p.all - p.tied_x) * (double)(p.all - p.tied_y));
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
