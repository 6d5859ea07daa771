/* LambdaRank of one list (Burges et al. 2006): RankNet whose pairs weigh as much as nDCG changes if the two swap their
   predicted places. Those weights count as constants in the gradient. O(k L) pairs for nDCG at k. */
#include <math.h>

#include "kernels/kernels.h"
#include "rank/pairs.h"

enum { GAIN_RANK, GAIN_LINEAR, GAIN_INVERSE };
enum { GAIN, TOP, SIGMA };

typedef struct room {
    tg_ordered by;                    /* of runtimes, then of scores */
    double *gain;                     /* (n,) by entry, over the ideal DCG */
    int32_t *faster;                  /* (n,) by entry: how many are faster */
    int64_t *entry;                   /* (n,) at each predicted place, best first */
    double *a, *gains, *discount, *w; /* (n,) by predicted place */
    int32_t *rank;                    /* (n,) `faster` by predicted place */
    double *memory;                   /* tg_pair_rows */
    int64_t n;
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
    r.memory = tg_take(c, tg_pair_room(n), sizeof *r.memory);
    return r;
}

/* Gains over the ideal DCG at `top`, by entry, from the order of runtimes. */
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
    /* nothing in reach has a gain: values are not those of the order */
    for (int64_t i = 0; i < n; i++) r->gain[i] = ideal > 0 ? r->gain[i] / ideal : 0;
}

/* Predicted places: by score, at equal scores the slower first, so that scores all equal are not taken for the right
   order. Those equal in both share the mean of their discounts, and the order they were given in counts for nothing. */
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
        for (int64_t p = first; p < end; p++) r->discount[p] = sum / (double)(end - first);
    }
}

/* The entry at predicted place p against all behind it. */
static double row(const void *context, int64_t p, double *g, double *c) {
    const room *r = context;
    for (int64_t q = p + 1; q < r->n; q++) {
        const double swap = fabs(r->gains[q] - r->gains[p]) * fabs(r->discount[q] - r->discount[p]) * r->w[q];
        c[q] = r->rank[q] == r->rank[p] ? 0 : r->rank[q] > r->rank[p] ? swap : -swap;
    }
    return tg_kernel_table()->logistic_row(r->n - p - 1, r->a[p], r->a + p + 1, c + p + 1, r->w[p], g + p + 1,
                                           &g[p]);
}

/* Places from which on all discounts are 0: pairs among them have no weight. */
static int64_t rows_of(const room *r) {
    int64_t rows = r->n;
    while (rows > 0 && r->discount[rows - 1] == 0) rows--;
    return rows;
}

static double run(const tg_list *list) {
    const double sigma = list->attr[SIGMA], k = list->attr[TOP];
    const int64_t n = list->length, top = k > 0 && k < (double)n ? (int64_t)k : n;
    tg_scratch c = {.base = list->scratch};
    room r = take(&c, n);
    const double pairs = tg_order_list(list, r.by);
    make_gains(list, top, &r);
    make_places(list, top, &r);
    const double sum = tg_pair_rows(n, rows_of(&r), row, &r, r.memory), scale = tg_reduce_pairs(list, pairs);
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
    .doc = "ranknet with each pair weighted by the change of nDCG if the two swapped their predicted places",
    .least = 2,
    .reductions = 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN_ALL | 1u << TG_REDUCE_MEAN_PAIRS,
    .reduction = TG_REDUCE_SUM,
    .reads = reads,
    .carve = carve,
    .run = run,
    .attrs =
        {[GAIN] = {.name = "gain",
                   .choices = "rank|linear|inverse",
                   .meaning = "of an entry with f of L faster: 1/(1 + f), 1 - f/L, or least value/value"},
         [TOP] = {.name = "k", .high = 1 << 30, .whole = 1, .meaning = "nDCG at k; 0: of the whole list"},
         [SIGMA] = {.name = "sigma",
                    .fallback = 1,
                    .low = 1e-6,
                    .high = 1e6,
                    .meaning = "steepness: scores are multiplied by it"}},
};
