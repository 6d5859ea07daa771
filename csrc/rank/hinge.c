/* Pairwise hinge of one list. A pair is (i, j) with y_i > y_j; it is active if s_j > s_i - margin, and then
   costs margin - s_i + s_j. Summed over pairs that is margin * active + sum_i c_i s_i with integers c_i, so
   only integers have to be found, and the two algorithms cannot differ in rounding. */
#include "rank/lists.h"

#include <math.h>

#include "base/parallel.h"
#include "rank/sort.h"

/* Largest float not above s - margin: for floats s_j, s_j > s - margin is the same as s_j > threshold. */
static float threshold(float s, float margin) {
    double exact = (double)s - (double)margin;
    float rounded = (float)exact;
    return (double)rounded > exact ? nextafterf(rounded, -INFINITY) : rounded;
}

/* Order (n,) = items by runtime, fastest first; group[p] = first place with the same runtime as place p.
   Returns the number of pairs of different runtimes. */
static int64_t order_runtimes(int64_t n, const int64_t *runtimes, tg_keyed *items, tg_keyed *spare,
                              int32_t *group) {
    for (int64_t i = 0; i < n; i++) items[i] = (tg_keyed){tg_key_i64(runtimes[i]), i};
    tg_sort_keyed(items, spare, n);
    int64_t pairs = 0, first = 0;
    for (int64_t p = 0; p < n; p++) {
        if (items[p].key != items[first].key) first = p;
        group[p] = (int32_t)first;
        pairs += first;
    }
    return pairs;
}

/* For one slower entry with threshold t: adds 1 to wins (n,) of every faster entry whose score (n,) is above
 * t. */
static int32_t count_above(int64_t n, const float *restrict s, float t, int32_t *restrict wins) {
    int32_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        int32_t above = s[j] > t;
        count += above;
        wins[j] += above;
    }
    return count;
}

static int64_t direct(int64_t n, const tg_keyed *items, const int32_t *group, const float *scores,
                      float margin, float *s, int32_t *wins, int64_t *counts) {
    int64_t active = 0;
    for (int64_t p = 0; p < n; p++) {
        s[p] = scores[items[p].index];
        wins[p] = 0;
    }
    for (int64_t p = 0; p < n; p++) {
        int32_t losses = count_above(group[p], s, threshold(s[p], margin), wins);
        counts[items[p].index] = -(int64_t)losses;
        active += losses;
    }
    for (int64_t p = 0; p < n; p++) counts[items[p].index] += wins[p];
    return active;
}

/* Fenwick tree over places 1..n. */
static void tree_add(int32_t *tree, int64_t n, int64_t place) {
    for (; place <= n; place += place & -place) tree[place]++;
}

static int32_t tree_sum(const int32_t *tree, int64_t place) {
    int32_t sum = 0;
    for (; place > 0; place -= place & -place) sum += tree[place];
    return sum;
}

/* Places in score order: place[i] = 1 + position of i; below[i] = number of scores <= threshold of i;
   reach[i] = number of thresholds < score of i. Thresholds rise with scores, so both are one walk. */
static void score_places(int64_t n, const float *scores, float margin, tg_keyed *items, tg_keyed *spare,
                         int32_t *place, int32_t *below, int32_t *reach) {
    for (int64_t i = 0; i < n; i++) items[i] = (tg_keyed){tg_key_f32(scores[i]), i};
    tg_sort_keyed(items, spare, n);
    int64_t low = 0, high = 0;
    for (int64_t p = 0; p < n; p++) {
        int64_t i = items[p].index;
        float t = threshold(scores[i], margin);
        while (low < n && scores[items[low].index] <= t) low++;
        while (high < n && threshold(scores[items[high].index], margin) < scores[i]) high++;
        place[i] = (int32_t)(p + 1);
        below[i] = (int32_t)low;
        reach[i] = (int32_t)high;
    }
}

/* Upwards through `items`, which are in runtime order: the entries already in the tree (n + 1,) are faster, ask
   how many lie above the threshold. Returns the sum of losses (n,). */
static int64_t count_losses(int64_t n, const tg_keyed *items, const int32_t *group, const int32_t *place,
                            const int32_t *below, int32_t *tree, int32_t *losses) {
    int64_t active = 0;
    memset(tree, 0, (size_t)(n + 1) * sizeof *tree);
    for (int64_t p = 0, inserted = 0; p < n; p++) {
        int64_t i = items[p].index;
        for (; inserted < group[p]; inserted++) tree_add(tree, n, place[items[inserted].index]);
        losses[i] = (int32_t)inserted - tree_sum(tree, below[i]);
        active += losses[i];
    }
    return active;
}

/* Downwards: those in the tree are slower, ask how many have their threshold below the score. */
static void count_wins(int64_t n, const tg_keyed *items, const int32_t *group, const int32_t *place,
                       const int32_t *reach, int32_t *tree, int32_t *wins) {
    memset(tree, 0, (size_t)(n + 1) * sizeof *tree);
    for (int64_t end = n; end > 0;) {
        int64_t first = group[end - 1];
        for (int64_t p = first; p < end; p++) wins[items[p].index] = tree_sum(tree, reach[items[p].index]);
        for (int64_t p = first; p < end; p++) tree_add(tree, n, place[items[p].index]);
        end = first;
    }
}

size_t tg_list_scratch(int64_t length) {
    size_t n = (size_t)length + 1;
    return n * (2 * sizeof(tg_keyed) + 6 * sizeof(int32_t)); /* ListMLE: 52 bytes, the hinge: 56 */
}

tg_hinge_counts tg_hinge_list(int64_t length, const float *scores, const int64_t *runtimes, float margin,
                              int use_direct, int64_t *counts, void *scratch) {
    size_t n = (size_t)length + 1;
    tg_keyed *items = scratch, *spare = items + n;
    int32_t *group = (int32_t *)(spare + n);
    tg_hinge_counts result;
    if (use_direct) {
        result.pairs = order_runtimes(length, runtimes, items, spare, group);
        result.active =
            direct(length, items, group, scores, margin, (float *)(group + n), group + 2 * n, counts);
        return result;
    }
    int32_t *place = group + n, *below = place + n, *reach = below + n;
    int32_t *tree[2] = {reach + n, reach + 2 * n}, *losses = (int32_t *)spare, *wins = losses + n;
    int64_t active = 0;
    score_places(length, scores, margin, items, spare, place, below, reach);
    result.pairs = order_runtimes(length, runtimes, items, spare, group);
#pragma omp parallel for schedule(static) num_threads(tg_threads(50.0 * (double)length))
    for (int side = 0; side < 2; side++) {
        if (side == 0) active = count_losses(length, items, group, place, below, tree[0], losses);
        else count_wins(length, items, group, place, reach, tree[1], wins);
    }
    for (int64_t i = 0; i < length; i++) counts[i] = (int64_t)wins[i] - losses[i];
    result.active = active;
    return result;
}
