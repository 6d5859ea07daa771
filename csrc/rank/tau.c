/* Kendall's tau-b and ordered pair accuracy from one exact count of pairs. */
#include "rank/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
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

/* Merges sorted a (n,) and b (n,) into out (2n,) and adds the pairs in which a's value is greater. Works from
   both ends at once, n steps each, so no end can be reached before and the two chains of loads overlap; and it
   selects, not branches, because which side is smaller is a coin toss. */
typedef struct merge {
    const int32_t *a, *b;
    int32_t *out;
    int64_t i, j, last_i, last_j, inversions;
} merge;

static inline merge merge_of(const int32_t *a, int64_t n, int32_t *out) {
    return (merge){a, a + n, out, 0, 0, n - 1, n - 1, 0};
}

static inline void merge_step(merge *m, int64_t n, int64_t step) {
    int32_t left = m->a[m->i], right = m->b[m->j], last_left = m->a[m->last_i], last_right = m->b[m->last_j];
    int64_t take_b = left > right, take_a = last_left > last_right;
    m->out[step] = left > right ? right : left;
    m->out[2 * n - 1 - step] = last_left > last_right ? last_left : last_right;
    m->inversions += (n - m->i) & -take_b;
    m->inversions += (n - 1 - m->last_i) & (take_a - 1);
    m->j += take_b;
    m->i += 1 - take_b;
    m->last_i -= take_a;
    m->last_j -= 1 - take_a;
}

static int64_t merge_equal(const int32_t *a, int64_t n, int32_t *restrict out) {
    merge m = merge_of(a, n, out);
    for (int64_t step = 0; step < n; step++) merge_step(&m, n, step);
    return m.inversions;
}

/* Two such merges side by side, of a (4n,): four chains of loads. */
static int64_t merge_two(const int32_t *a, int64_t n, int32_t *restrict out) {
    merge m = merge_of(a, n, out), k = merge_of(a + 2 * n, n, out + 2 * n);
    for (int64_t step = 0; step < n; step++) {
        merge_step(&m, n, step);
        merge_step(&k, n, step);
    }
    return m.inversions + k.inversions;
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

/* Pairs p < q with a[p] > a[q]; *sorted is then a or spare (n,), with the values in order. */
static int64_t count_inversions(int32_t *a, int32_t *spare, int64_t n, int32_t **sorted) {
    int64_t inversions = 0, start = 0;
    for (; start + RUN <= n; start += RUN) inversions += sort_run(a + start);
    inversions += sort_rest(a + start, n - start);
    for (int64_t width = RUN; width < n; width *= 2) {
        for (start = 0; start + 4 * width <= n; start += 4 * width)
            inversions += merge_two(a + start, width, spare + start);
        for (; start + 2 * width <= n; start += 2 * width)
            inversions += merge_equal(a + start, width, spare + start);
        int64_t left = n - start < width ? n - start : width;
        inversions += merge_rest(a + start, left, a + start + left, n - start - left, spare + start);
        int32_t *swap = a;
        a = spare;
        spare = swap;
    }
    *sorted = a;
    return inversions;
}

/* Pairs of a (na,) and b (nb,), both sorted, in which a's value is greater. */
static int64_t count_across(const int32_t *a, int64_t na, const int32_t *b, int64_t nb) {
    int64_t low = 0, high = nb, pairs = 0;
    while (na > 0 && low < high) { /* first b that is not below a[0] */
        int64_t middle = (low + high) / 2;
        if (b[middle] < a[0]) low = middle + 1;
        else high = middle;
    }
    for (int64_t i = 0; i < na;) {
        int below = low < nb && b[low] < a[i];
        pairs += low & (below - 1);
        low += below;
        i += 1 - below;
    }
    return pairs;
}

enum { PARTS = 4 }; /* of a long list, for threads */

/* The same as count_inversions, by threads: the parts, then pairs of parts against each other. */
static int64_t count_parts(int32_t *a, int32_t *spare, int64_t n, int threads) {
    int32_t *part[PARTS];
    int64_t inversions = 0;
#pragma omp parallel for schedule(static) reduction(+ : inversions) num_threads(threads)
    for (int p = 0; p < PARTS; p++) {
        int64_t start = n * p / PARTS;
        inversions += count_inversions(a + start, spare + start, n * (p + 1) / PARTS - start, &part[p]);
    }
#pragma omp parallel for schedule(static) reduction(+ : inversions) num_threads(threads)
    for (int pair = 0; pair < PARTS * PARTS; pair++) {
        int p = pair / PARTS, q = pair % PARTS;
        if (p < q)
            inversions += count_across(part[p], n * (p + 1) / PARTS - n * p / PARTS, part[q],
                                       n * (q + 1) / PARTS - n * q / PARTS);
    }
    return inversions;
}

static int64_t choose2(int64_t n) { return n * (n - 1) / 2; }

/* Dense rank (n,) of each number in the order of y; returns the tied pairs. */
static int64_t dense_ranks(const tg_order *y, int64_t n, int32_t *rank) {
    int64_t tied = 0, run = 0;
    int32_t value = 0;
    for (int64_t p = 0; p < n; p++) {
        if (p > 0 && !tg_order_tied(y, p - 1, p)) {
            tied += choose2(run);
            run = 0;
            value++;
        }
        run++;
        rank[tg_order_at(y, p)] = value;
    }
    return tied + choose2(run);
}

/* Sorts ranks (n,) of one x by y, so that they add no inversions; returns the pairs tied in both. */
static int64_t sort_tied(int32_t *ranks, int64_t n, uint64_t *scratch) {
    if (n <= RUN) sort_rest(ranks, n);
    else {
        uint64_t *keys = scratch;
        for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)ranks[i];
        const tg_order order = tg_sort_order(keys, n, scratch + n);
        for (int64_t i = 0; i < n; i++) ranks[i] = (int32_t)keys[tg_order_at(&order, i)];
    }
    int64_t tied = 0, run = 1;
    for (int64_t i = 1; i < n; i++) {
        tied += ranks[i] == ranks[i - 1] ? run : 0;
        run = ranks[i] == ranks[i - 1] ? run + 1 : 1;
    }
    return tied;
}

/* order (n,) = ranks by y in the order of x; ties in x and in both. */
static void walk_x(const tg_order *x, int64_t n, const int32_t *y_rank, int32_t *order, uint64_t *scratch,
                   tg_pairs *pairs) {
    for (int64_t p = 0; p < n; p++) order[p] = y_rank[tg_order_at(x, p)];
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && tg_order_tied(x, end - 1, end);) end++;
        if (end - first < 2) continue;
        pairs->tied_x += choose2(end - first);
        pairs->tied_both += sort_tied(order + first, end - first, scratch);
    }
}

tg_status tg_count_pairs(int64_t n, const uint64_t *x_keys, const uint64_t *y_keys, tg_pairs *pairs,
                         tg_error *err) {
    *pairs = (tg_pairs){0};
    if (n < 2) return TG_OK;
    if (n > INT32_MAX)
        return tg_fail(err, TG_E_SHAPE, "metrics take at most 2147483647 entries, got %lld", (long long)n);
    /* the orders of x and y, and room to sort ties of x */
    uint64_t *block = malloc((size_t)n * 7 * sizeof *block);
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to count pairs of %lld entries", (long long)n);
    const uint64_t *keys[2] = {x_keys, y_keys};
    const int threads = tg_threads(30.0 * (double)n);
    tg_order order[2];
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int side = 0; side < 2; side++) order[side] = tg_sort_order(keys[side], n, block + 2 * n * side);
    int32_t *y_rank = (int32_t *)order[0].spare, *ranks = y_rank + n, *merged = (int32_t *)order[1].spare,
            *sorted;
    pairs->all = choose2(n);
    pairs->tied_y = dense_ranks(&order[1], n, y_rank);
    walk_x(&order[0], n, y_rank, ranks, block + 4 * n, pairs);
    pairs->discordant =
        threads > 1 ? count_parts(ranks, merged, n, threads) : count_inversions(ranks, merged, n, &sorted);
    free(block);
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
