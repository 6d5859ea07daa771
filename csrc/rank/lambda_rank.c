/* LambdaRank of one list (Burges et al. 2006): RankNet whose pairs weigh as much as nDCG changes if the two
   swap their predicted places. Those weights count as constants in the gradient. O(k L) pairs for nDCG at k.

   The other schemes are those of LambdaLoss (Wang et al. 2018), with logarithms to base 2. g: the gain, which
   is the relevance; G: g over the ideal DCG at k; D(p) = log2(1 + p) of the predicted place p, counted from
   1, and infinite beyond k. What a pair of i faster than j weighs:
   lambdarank  |G_i - G_j| |1/D(p_i) - 1/D(p_j)|
   ndcg2       |G_i - G_j| (1/D(d) - 1/D(d + 1)), d = |p_i - p_j|, if i or j is among the first k predicted
   arp2        |g_i - g_j|
   The pairs of ndcg1 and arp1 are all (i, j) with i != j, as if i were the faster one; they weigh G_i/D(p_i)
   and g_i. */
#include <math.h>

#include "kernels/kernels.h"
#include "rank/pairs.h"

enum { GAIN_RANK, GAIN_LINEAR, GAIN_INVERSE };
enum { LAMBDARANK, NDCG1, NDCG2, ARP1, ARP2 };
enum { GAIN, TOP, SIGMA, SCHEME };

typedef struct room {
    tg_ordered by;                    /* of runtimes, then of scores */
    double *gain;                     /* (n,) by entry, over the ideal DCG */
    int32_t *faster;                  /* (n,) by entry: how many are faster */
    int64_t *entry;                   /* (n,) at each predicted place, best first */
    double *a, *gains, *discount, *w; /* (n,) by predicted place */
    int32_t *rank;                    /* (n,) `faster` by predicted place */
    int32_t *twice;                   /* (n,) twice the predicted place, a mean */
    double *falls;                    /* (2n,) at 2d: 1/D(d) - 1/D(d + 1) */
    double *memory;                   /* tg_pair_rows */
    int64_t n;
    int scheme;
} room;

static room take(tg_scratch *c, int64_t n) {
    room r = {.n = n};
    r.by = tg_take_ordered(c, n);
    r.gain = tg_take(c, n, sizeof *r.gain);
    r.faster = tg_take(c, n, sizeof *r.faster);
    r.entry = tg_take(c, n, sizeof *r.entry);
    r.a = tg_take(c, n, sizeof *r.a);
    r.gains = tg_take(c, n, sizeof *r.gains);
    r.discount = tg_take(c, n, sizeof *r.discount);
    r.w = tg_take(c, n, sizeof *r.w);
    r.rank = tg_take(c, n, sizeof *r.rank);
    r.twice = tg_take(c, n, sizeof *r.twice);
    r.falls = tg_take(c, 2 * n, sizeof *r.falls);
    r.memory = tg_take(c, tg_pair_room(n), sizeof *r.memory);
    return r;
}

/* Gains by entry from the order of runtimes, for nDCG over the ideal DCG at `top`. */
static void make_gains(const tg_list *list, int64_t top, room *r) {
    const int64_t n = r->n;
    double ideal = 0, best = INFINITY;
    if (list->value != NULL)
        for (int64_t i = 0; i < n; i++) best = list->value[i] < best ? list->value[i] : best;
    for (int64_t p = 0; p < n; p++) {
        const int64_t i = r->by.items[p].index;
        const double faster = r->faster[i] = r->by.group[p];
        if (list->attr[GAIN] == GAIN_RANK) r->gain[i] = 1 / (1 + faster);
        else if (list->attr[GAIN] == GAIN_LINEAR) r->gain[i] = 1 - faster / (double)n;
        else r->gain[i] = best / list->value[i];
        if (p < top) ideal += r->gain[i] / log2((double)(p + 2));
    }
    if (r->scheme >= ARP1) return;
    /* nothing in reach has a gain: values are not those of the order */
    for (int64_t i = 0; i < n; i++) r->gain[i] = ideal > 0 ? r->gain[i] / ideal : 0;
}

/* Predicted places: by score, at equal scores the slower first, so that scores all equal are not taken for the
   right order. Those equal in both share the means of their places and discounts, and the order they were given
   in counts for nothing. */
static void make_places(const tg_list *list, int64_t top, room *r) {
    const int64_t n = r->n;
    for (int64_t p = 0; p < n; p++) r->entry[n - 1 - p] = r->by.items[p].index;
    for (int64_t p = 0; p < n; p++)
        r->by.items[p] = (tg_keyed){tg_key_f32(list->scores[r->entry[p]]), r->entry[p]};
    tg_sort_keyed(r->by.items, r->by.spare, n);
    for (int64_t p = 0; p < n; p++) {
        const int64_t i = r->entry[p] = r->by.items[p].index;
        r->a[p] = list->attr[SIGMA] * (double)list->scores[i];
        r->gains[p] = r->gain[i];
        r->rank[p] = r->faster[i];
        r->w[p] = tg_weight(list, i);
    }
    for (int64_t first = 0, end; first < n; first = end) {
        double sum = 0;
        for (end = first; end < n && r->a[end] == r->a[first] && r->rank[end] == r->rank[first]; end++)
            sum += end < top ? 1 / log2((double)(end + 2)) : 0;
        for (int64_t p = first; p < end; p++) {
            r->discount[p] = sum / (double)(end - first);
            r->twice[p] = (int32_t)(first + end - 1);
        }
    }
    for (int64_t d = 2; r->scheme == NDCG2 && d < 2 * n; d++)
        r->falls[d] = 1 / log2(1 + (double)d / 2) - 1 / log2(2 + (double)d / 2);
}

/* The sum over those behind the entry at predicted place p, of which q weighs |c[q]|, and its gradient. */
static double sum_behind(const room *r, int64_t p, double *g, const double *c) {
    return tg_kernel_table()->logistic_row(r->n - p - 1, r->a[p], r->a + p + 1, c + p + 1, r->w[p], g + p + 1,
                                           &g[p]);
}

/* The entry at predicted place p against all behind it. */
static double row(const void *context, int64_t p, double *g, double *c) {
    const room *r = context;
    for (int64_t q = p + 1; q < r->n; q++) {
        const double swap = fabs(r->gains[q] - r->gains[p]) * fabs(r->discount[q] - r->discount[p]) * r->w[q];
        c[q] = r->rank[q] == r->rank[p] ? 0 : r->rank[q] > r->rank[p] ? swap : -swap;
    }
    return sum_behind(r, p, g, c);
}

/* The same for ndcg2 and arp2. Of two that differ in rank, the mean places are at least 1 apart. */
static double row2(const void *context, int64_t p, double *g, double *c) {
    const room *r = context;
    for (int64_t q = p + 1; q < r->n; q++) {
        if (r->rank[q] == r->rank[p]) {
            c[q] = 0;
            continue;
        }
        const double apart = fabs(r->gains[q] - r->gains[p]) * r->w[q];
        const double weight = r->scheme == NDCG2 ? apart * r->falls[r->twice[q] - r->twice[p]] : apart;
        c[q] = r->rank[q] > r->rank[p] ? weight : -weight;
    }
    return sum_behind(r, p, g, c);
}

/* ndcg1, arp1: the entry at predicted place p, as the faster one, against all others. */
static double row1(const void *context, int64_t p, double *g, double *c) {
    const room *r = context;
    const double weight = r->scheme == NDCG1 ? r->gains[p] * r->discount[p] : r->gains[p];
    for (int64_t q = 0; q < r->n; q++) c[q] = q == p ? 0 : weight * r->w[q];
    return tg_kernel_table()->logistic_row(r->n, r->a[p], r->a, c, r->w[p], g, &g[p]);
}

/* Places from which on all discounts are 0: pairs among them have no weight in an nDCG. */
static int64_t rows_of(const room *r) {
    int64_t rows = r->n;
    while (r->scheme < ARP1 && rows > 0 && r->discount[rows - 1] == 0) rows--;
    return rows;
}

/* The weight of all (i, j), i != j. */
static double all_pairs(const tg_list *list) {
    const double total = tg_total_weight(list);
    double own = 0;
    for (int64_t i = 0; i < list->length; i++) own += tg_weight(list, i) * tg_weight(list, i);
    return total * total - own;
}

static double run(const tg_list *list) {
    const double sigma = list->attr[SIGMA], k = list->attr[TOP];
    const int64_t n = list->length, top = k > 0 && k < (double)n ? (int64_t)k : n;
    tg_scratch c = {.base = list->scratch};
    room r = take(&c, n);
    r.scheme = (int)list->attr[SCHEME];
    const int first = r.scheme == NDCG1 || r.scheme == ARP1;
    const double faster = tg_order_list(list, r.by), pairs = first ? all_pairs(list) : faster;
    make_gains(list, top, &r);
    make_places(list, top, &r);
    tg_pair_row *const rows = r.scheme == LAMBDARANK ? row : first ? row1 : row2;
    const double sum = tg_pair_rows(n, rows_of(&r), rows, &r, r.memory);
    const double scale = tg_reduce_pairs(list, pairs) / (r.scheme == LAMBDARANK ? 1 : log(2));
    for (int64_t p = 0; p < n; p++)
        list->gradient[r.entry[p]] = (float)(r.memory[p] * sigma * scale * list->share);
    return sum * scale;
}

static double carve(tg_scratch *c, int64_t length) {
    take(c, length);
    return 15 * (double)length * (double)length;
}

static tg_reads reads(const double *attr) {
    return (tg_reads){.targets = TG_NEED_ORDER | (attr[GAIN] == GAIN_INVERSE ? TG_NEED_VALUE : 0),
                      .above = 0};
}

const tg_loss tg_loss_lambda_rank = {
    .name = "lambda_rank",
    .doc = "ranknet with each pair weighted by the change of nDCG if the two swapped their predicted places, "
           "or by another scheme of LambdaLoss (Wang et al. 2018), then with logarithms to base 2",
    .least = 2,
    .reductions = 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN_ALL | 1u << TG_REDUCE_MEAN_PAIRS,
    .reduction = TG_REDUCE_SUM,
    .reads = reads,
    .carve = carve,
    .run = run,
    .attrs = TG_ATTRS(
        [GAIN] = {.name = "gain",
                  .kind = TG_ATTR_CHOICE,
                  .choices = "rank|linear|inverse",
                  .doc = "of an entry with f of L faster: 1/(1 + f), 1 - f/L, or least value/value"},
        [TOP] = {.name = "k", .high = 1 << 30, .kind = TG_ATTR_INT, .doc = "nDCG at k; 0: of the whole list"},
        [SIGMA] = {.name = "sigma",
                   .fallback = 1,
                   .low = 1e-6,
                   .high = 1e6,
                   .doc = "steepness: scores are multiplied by it"},
        [SCHEME] =
            {.name = "scheme",
             .kind = TG_ATTR_CHOICE,
             .choices = "lambdarank|ndcg1|ndcg2|arp1|arp2",
             .doc = "weight of a pair of i faster than j, from gains g, G (over the ideal DCG), places p: "
                    "|G_i - G_j| |1/D(p_i) - 1/D(p_j)|; G_i/D(p_i), of all i and j; |G_i - G_j| "
                    "(1/D(d) - 1/D(d + 1)) with d = |p_i - p_j|; g_i, of all i and j; |g_i - g_j|; "
                    "D(p) = log2(1 + p). The last two know no k"}),
};
