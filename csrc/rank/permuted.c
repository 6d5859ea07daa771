/* Hinge over the pairs of random permutations, an entry and its partner, instead of all pairs. Permuted are the
   places in the order of runtimes, so that the order the entries were given in counts for nothing. Published with
   the reduction "mean". O(permutations L log L). */
#include <float.h>

#include "base/rng.h"
#include "rank/pairs.h"

enum { MARGIN, PERMUTATIONS };

typedef struct room {
    tg_ordered by;
    double *s, *w, *counts; /* (n,) by place: score, weight, d (sum over the pairs) / d score */
    uint64_t *draws;        /* (3n,) */
} room;

static room take(tg_scratch *c, int64_t n) {
    room r;
    r.by = tg_take_ordered(c, n);
    r.s = tg_take(c, n, sizeof *r.s);
    r.w = tg_take(c, n, sizeof *r.w);
    r.counts = tg_take(c, n, sizeof *r.counts);
    r.draws = tg_take(c, 3 * n, sizeof *r.draws);
    return r;
}

/* The sum over one permutation's pairs of different runtimes; their weight is added to *pairs. */
static double permute(const room *r, int64_t n, uint64_t key, double margin, double *pairs) {
    double sum = 0;
    for (int64_t p = 0; p < n; p++) r->draws[p] = tg_draw(key, (uint64_t)p);
    const tg_order partners = tg_sort_order(r->draws, n, r->draws + n);
    for (int64_t p = 0; p < n; p++) {
        const int64_t q = tg_order_at(&partners, p);
        if (r->by.group[p] == r->by.group[q]) continue;
        const int64_t slow = p > q ? p : q, fast = p > q ? q : p;
        const double w = r->w[p] * r->w[q], cost = margin - (r->s[slow] - r->s[fast]);
        *pairs += w;
        if (cost <= 0) continue;
        sum += w * cost;
        r->counts[slow] -= w;
        r->counts[fast] += w;
    }
    return sum;
}

static double run(const tg_list *list) {
    const int64_t n = list->length;
    const double times = list->attr[PERMUTATIONS];
    tg_scratch c = {.base = list->scratch};
    const room r = take(&c, n);
    double sum = 0, pairs = 0;
    tg_order_list(list, r.by);
    for (int64_t p = 0; p < n; p++) {
        r.s[p] = (double)list->scores[r.by.items[p].index];
        r.w[p] = tg_weight(list, r.by.items[p].index);
        r.counts[p] = 0;
    }
    for (int64_t k = 0; k < (int64_t)times; k++)
        sum += permute(&r, n, tg_key(list->key, (uint64_t)k), list->attr[MARGIN], &pairs);
    const double mean =
        list->reduction == TG_REDUCE_MEAN ? tg_reduce_entries(list) : tg_reduce_pairs(list, pairs / times);
    const double scale = mean / times;
    for (int64_t p = 0; p < n; p++)
        list->gradient[r.by.items[p].index] = (float)(r.counts[p] * scale * list->share);
    return sum * scale;
}

static double carve(tg_scratch *c, int64_t length) {
    take(c, length);
    return 500 * (double)length;
}

const tg_loss tg_loss_permuted_margin = {
    .name = "permuted_margin",
    .doc = "mean of max(0, margin - (s_i - s_j)) over pairs of i slower than j: each entry and its partner "
           "in random permutations of the list, by the seed",
    .least = 2,
    .reductions = 1u << TG_REDUCE_MEAN_PAIRS | 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN,
    .reduction = TG_REDUCE_MEAN_PAIRS,
    .reads = tg_reads_order,
    .carve = carve,
    .run = run,
    .attrs = TG_ATTRS([MARGIN] = {.name = "margin",
                                  .fallback = 0.1,
                                  .low = 0,
                                  .high = FLT_MAX,
                                  .doc = "the slower one's score should be higher by this"},
                      [PERMUTATIONS] = {.name = "permutations",
                                        .fallback = 4,
                                        .low = 1,
                                        .high = 1024,
                                        .kind = TG_ATTR_INT,
                                        .doc = "how many are drawn; their mean is taken"}),
};
