/* Kendall's tau-b and ordered pair accuracy from one exact count of pairs. */
#include "rank/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "rank/sort.h"

enum { RUN = 16, BUCKETS = 256, LEAST_SHIFT = 5 };

/* 16 lanes in four: wider vectors the compiler takes to pieces where there are none. */
enum { QUADS = RUN / 4 };
typedef int32_t quad __attribute__((vector_size(16)));

/* Lane i of row j: 1 for i < j. */
#define BELOW(j)                                                                                             \
    {                                                                                                        \
        {0 < (j), 1 < (j), 2 < (j), 3 < (j)}, {4 < (j), 5 < (j), 6 < (j), 7 < (j)},                          \
            {8 < (j), 9 < (j), 10 < (j), 11 < (j)}, {                                                        \
            12 < (j), 13 < (j), 14 < (j), 15 < (j)                                                           \
        }                                                                                                    \
    }
static const quad below[RUN + 1][QUADS] = {BELOW(0),  BELOW(1),  BELOW(2),  BELOW(3),  BELOW(4),  BELOW(5),
                                           BELOW(6),  BELOW(7),  BELOW(8),  BELOW(9),  BELOW(10), BELOW(11),
                                           BELOW(12), BELOW(13), BELOW(14), BELOW(15), BELOW(16)};

/* Sorts a (RUN,), values below 2^27, ascending and returns the number of inversions: places from all
   comparisons, of values made distinct by their index, without a branch. */
static int64_t sort_run(int32_t *a) {
    quad keys[QUADS], place[QUADS] = {{0}}, upside[QUADS] = {{0}};
    int32_t places[RUN], values[RUN], counts[4];
    memcpy(values, a, sizeof values);
    for (int i = 0; i < RUN; i++) values[i] = values[i] << 4 | i;
    memcpy(keys, values, sizeof keys);
#pragma GCC unroll 16
    for (int j = 0; j < RUN; j++) {
        const quad key = {values[j], values[j], values[j], values[j]};
#pragma GCC unroll 4
        for (int q = 0; q < QUADS; q++) {
            const quad less = keys[q] > key; /* -1 where key j belongs before */
            place[q] -= less;
            if (q * 4 < j) upside[q] -= less & -below[j][q]; /* but is after: an inversion */
        }
    }
    memcpy(places, place, sizeof places);
    for (int i = 0; i < RUN; i++) a[places[i]] = values[i] >> 4;
    upside[0] += upside[1] + upside[2] + upside[3];
    memcpy(counts, &upside[0], sizeof counts);
    return (int64_t)counts[0] + counts[1] + counts[2] + counts[3];
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

/* Pairs p < q with a[p] > a[q], for values below 2^27; a and spare (n,) are overwritten. */
static int64_t count_by_merges(int32_t *a, int32_t *spare, int64_t n) {
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
    return inversions;
}

/* Deals ranks (n,) into buckets of 2^shift values, in their order, and returns the pairs in different buckets
   that are out of order. ends (BUCKETS,) become the ends of the buckets; values are then relative to theirs.
   Buckets are counted in two levels of 16, each with the entries so far above every one of them. */
static int64_t deal(const int32_t *ranks, int64_t n, int shift, int32_t *dealt, int64_t *ends) {
    quad groups[QUADS] = {{0}}, within[RUN][QUADS];
    const int32_t mask = (1 << shift) - 1;
    int64_t inversions = 0, sum = 0;
    memset(within, 0, sizeof within);
    memset(ends, 0, BUCKETS * sizeof *ends);
    for (int64_t p = 0; p < n; p++) ends[ranks[p] >> shift]++;
    for (int b = 0; b < BUCKETS; b++) {
        int64_t count = ends[b];
        ends[b] = sum;
        sum += count;
    }
    for (int64_t p = 0; p < n; p++) {
        const int bucket = ranks[p] >> shift, group = bucket / RUN, place = bucket % RUN;
        inversions += groups[group / 4][group % 4] + within[group][place / 4][place % 4];
        for (int q = 0; q < QUADS; q++) groups[q] += below[group][q];
        for (int q = 0; q < QUADS; q++) within[group][q] += below[place][q];
        dealt[ends[bucket]++] = ranks[p] & mask;
    }
    return inversions;
}

/* Pairs p < q with ranks[p] > ranks[q], ranks (n,) below n; ranks and spare (n,) are overwritten. Dense ranks
   without ties fill their buckets, so that merges find powers of two. */
static int64_t count_inversions(int32_t *ranks, int32_t *spare, int64_t n) {
    int64_t ends[BUCKETS];
    int shift = LEAST_SHIFT;
    while ((n - 1) >> shift >= BUCKETS) shift++;
    int64_t inversions = deal(ranks, n, shift, spare, ends);
#pragma omp parallel for schedule(static) reduction(+ : inversions) num_threads(tg_threads(30.0 * (double)n))
    for (int b = 0; b < BUCKETS; b++) {
        int64_t start = b == 0 ? 0 : ends[b - 1];
        inversions += count_by_merges(spare + start, ranks + start, ends[b] - start);
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
    int32_t *y_rank = (int32_t *)order[0].spare, *ranks = y_rank + n, *merged = (int32_t *)order[1].spare;
    pairs->all = choose2(n);
    pairs->tied_y = dense_ranks(&order[1], n, y_rank);
    walk_x(&order[0], n, y_rank, ranks, block + 4 * n, pairs);
    pairs->discordant = count_inversions(ranks, merged, n);
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
