/* Pairwise hinge of one list. A pair is (i, j) with y_i > y_j; it is active if s_j > s_i - margin, and then
   costs margin - s_i + s_j. Summed over pairs that is margin * active + sum_i c_i s_i with integers c_i, so
   only integers have to be found, and the two algorithms cannot differ in rounding. With sample weights the c_i
   are sums of products of weights, which may differ in their last bits. 1 ms for 10,000 entries on one thread.
   The other loss is a logarithm of that sum. */
#include <float.h>
#include <math.h>

#include "base/parallel.h"
#include "rank/pairs.h"

/* Lists up to this length take the direct O(L^2) way, which the compiler vectorises. */
enum { DIRECT = 256 };

/* Largest float not above s - margin: for floats s_j, s_j > s - margin is the same as s_j > threshold. */
static float threshold(float s, float margin) {
    double exact = (double)s - (double)margin;
    float rounded = (float)exact;
    return (double)rounded > exact ? nextafterf(rounded, -INFINITY) : rounded;
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

static int64_t direct(int64_t n, const tg_ordered *by, const float *scores, float margin, float *s,
                      int32_t *wins, double *counts) {
    int64_t active = 0;
    for (int64_t p = 0; p < n; p++) {
        s[p] = scores[by->items[p].index];
        wins[p] = 0;
    }
    for (int64_t p = 0; p < n; p++) {
        int32_t losses = count_above(by->group[p], s, threshold(s[p], margin), wins);
        counts[by->items[p].index] = -(double)losses;
        active += losses;
    }
    for (int64_t p = 0; p < n; p++) counts[by->items[p].index] += wins[p];
    return active;
}

/* Fenwick tree of sums over places 1..n. */
static void tree_add(double *tree, int64_t n, int64_t place, double w) {
    for (; place <= n; place += place & -place) tree[place] += w;
}

static double tree_sum(const double *tree, int64_t place) {
    double sum = 0;
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

typedef struct room {
    double *counts; /* (n,): d (sum over the pairs) / d scores */
    tg_ordered by;
    float *s; /* of short lists: scores by order */
    int32_t *wins;
    double *won, *w;                /* and weights */
    int32_t *place, *below, *reach; /* of long lists, see score_places */
    double *tree[2], *side[2];      /* (n + 1,), (n,): what each one lost, won */
} room;

static room take(tg_scratch *c, int64_t n) {
    room r = {0};
    r.counts = tg_take(c, n, sizeof *r.counts);
    r.by = tg_take_ordered(c, n);
    if (n <= DIRECT) {
        r.s = tg_take(c, n, sizeof *r.s);
        r.wins = tg_take(c, n, sizeof *r.wins);
        r.won = tg_take(c, n, sizeof *r.won);
        r.w = tg_take(c, n, sizeof *r.w);
        return r;
    }
    r.place = tg_take(c, n, sizeof *r.place);
    r.below = tg_take(c, n, sizeof *r.below);
    r.reach = tg_take(c, n, sizeof *r.reach);
    for (int side = 0; side < 2; side++) r.tree[side] = tg_take(c, n + 1, sizeof *r.tree[side]);
    r.side[0] = (double *)r.by.spare; /* after the order is made */
    r.side[1] = r.side[0] + n;
    return r;
}

/* Upwards through the entries in runtime order: those in the tree are faster, ask how much weight lies above the
   threshold. Places are counted from the highest score, so that nothing is subtracted. */
static void add_losses(const tg_list *list, const room *r) {
    const int64_t n = list->length;
    const tg_keyed *items = r->by.items;
    memset(r->tree[0], 0, (size_t)(n + 1) * sizeof *r->tree[0]);
    for (int64_t p = 0, inserted = 0; p < n; p++) {
        for (; inserted < r->by.group[p]; inserted++) {
            const int64_t j = items[inserted].index;
            tree_add(r->tree[0], n, n + 1 - r->place[j], tg_weight(list, j));
        }
        r->side[0][items[p].index] = tree_sum(r->tree[0], n - r->below[items[p].index]);
    }
}

/* Downwards: those in the tree are slower, ask how much weight has its threshold below the score. */
static void add_wins(const tg_list *list, const room *r) {
    const int64_t n = list->length;
    const tg_keyed *items = r->by.items;
    memset(r->tree[1], 0, (size_t)(n + 1) * sizeof *r->tree[1]);
    for (int64_t end = n; end > 0;) {
        const int64_t first = r->by.group[end - 1];
        for (int64_t p = first; p < end; p++)
            r->side[1][items[p].index] = tree_sum(r->tree[1], r->reach[items[p].index]);
        for (int64_t p = first; p < end; p++)
            tree_add(r->tree[1], n, r->place[items[p].index], tg_weight(list, items[p].index));
        end = first;
    }
}

/* Sorted: returns the weight of the active pairs. `pairs` becomes that of the pairs of different runtimes. */
static double sorted(const tg_list *list, float margin, const room *r, double *pairs) {
    const int64_t n = list->length;
    double active = 0;
    score_places(n, list->scores, margin, r->by.items, r->by.spare, r->place, r->below, r->reach);
    *pairs = tg_order_list(list, r->by);
#pragma omp parallel for schedule(static) num_threads(tg_threads(50.0 * (double)n))
    for (int side = 0; side < 2; side++) {
        if (side == 0) add_losses(list, r);
        else add_wins(list, r);
    }
    for (int64_t i = 0; i < n; i++) {
        const double w = tg_weight(list, i);
        r->counts[i] = w * (r->side[1][i] - r->side[0][i]);
        active += w * r->side[0][i];
    }
    return active;
}

/* Direct, with weights: returns the weight of the active pairs. */
static double weighted(const tg_list *list, float margin, const room *r) {
    const int64_t n = list->length;
    const tg_keyed *items = r->by.items;
    const float *restrict s = r->s;
    const double *restrict w = r->w;
    double *restrict won = r->won, active = 0;
    for (int64_t p = 0; p < n; p++) {
        r->s[p] = list->scores[items[p].index];
        r->w[p] = tg_weight(list, items[p].index);
        won[p] = 0;
    }
    for (int64_t p = 0; p < n; p++) {
        const float t = threshold(s[p], margin);
        const double mine = w[p];
        double lost = 0;
        for (int64_t j = 0; j < r->by.group[p]; j++) {
            const double above = s[j] > t;
            lost += above * w[j];
            won[j] += above * mine;
        }
        r->counts[items[p].index] = -lost;
        active += mine * lost;
    }
    for (int64_t p = 0; p < n; p++) {
        double *count = &r->counts[items[p].index];
        *count = w[p] * (won[p] + *count);
    }
    return active;
}

/* The sum over the pairs, reduced. r->counts times *scale is its gradient. */
static double hinge(const tg_list *list, const room *r, double *scale) {
    const int64_t n = list->length;
    const float margin = (float)list->attr[0];
    double pairs, active;
    if (n > DIRECT) {
        active = sorted(list, margin, r, &pairs);
    } else {
        pairs = tg_order_list(list, r->by);
        active = list->weight == NULL
                     ? (double)direct(n, &r->by, list->scores, margin, r->s, r->wins, r->counts)
                     : weighted(list, margin, r);
    }
    *scale = tg_reduce_pairs(list, pairs);
    /* Counts sum to 0, so any constant may be taken from the scores: it keeps a common offset out of the
       rounding. */
    double sum = 0, origin = list->scores[0];
    for (int64_t i = 0; i < n; i++) sum += r->counts[i] * ((double)list->scores[i] - origin);
    return ((double)margin * active + sum) * *scale;
}

static double run(const tg_list *list) {
    tg_scratch c = {.base = list->scratch};
    const room r = take(&c, list->length);
    double scale;
    const double value = hinge(list, &r, &scale);
    for (int64_t i = 0; i < list->length; i++) list->gradient[i] = (float)(r.counts[i] * scale * list->share);
    return value;
}

/* 1/ln 2 - 1/ln(2 + h) of a hinge h, as one quotient: exact where h is small, too. */
static double run_dcg(const tg_list *list) {
    tg_scratch c = {.base = list->scratch};
    const room r = take(&c, list->length);
    double scale;
    const double h = hinge(list, &r, &scale), size = log(2 + h), slope = scale / ((2 + h) * size * size);
    for (int64_t i = 0; i < list->length; i++) list->gradient[i] = (float)(r.counts[i] * slope * list->share);
    return log1p(h / 2) / (log(2) * size);
}

static double carve(tg_scratch *c, int64_t length) {
    const double n = (double)length;
    take(c, length);
    return length <= DIRECT ? n * n / 2 + 50 * n : 400 * n;
}

#define MARGIN                                                                                               \
    {.name = "margin",                                                                                       \
     .fallback = 1,                                                                                          \
     .low = 0,                                                                                               \
     .high = FLT_MAX,                                                                                        \
     .doc = "the slower one's score should be higher by this; rounded to float32"}

const tg_loss tg_loss_pairwise_hinge = {
    .name = "pairwise_hinge",
    .doc = "sum of max(0, margin - (s_i - s_j)) over pairs of i slower than j",
    .least = 2,
    .reductions = 1u << TG_REDUCE_MEAN_ALL | 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN_PAIRS,
    .reduction = TG_REDUCE_MEAN_ALL,
    .reads = tg_reads_order,
    .carve = carve,
    .run = run,
    .attrs = TG_ATTRS(MARGIN),
};

const tg_loss tg_loss_dcg_hinge = {
    .name = "dcg_hinge",
    .doc = "1/ln 2 - 1/ln(2 + h) of the pairwise hinge h: rises ever more slowly with the wrong pairs; "
           "published without the constant, which makes 0 the least value",
    .least = 2,
    .reductions = 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN_ALL | 1u << TG_REDUCE_MEAN_PAIRS,
    .reduction = TG_REDUCE_SUM,
    .reads = tg_reads_order,
    .carve = carve,
    .run = run_dcg,
    .attrs = TG_ATTRS(MARGIN),
};
