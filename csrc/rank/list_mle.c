/* ListMLE of one list. The usual code subtracts the maximum once and adds an epsilon inside the logarithm
   against log(0); here every suffix keeps its own maximum, so no epsilon is needed and none is used. */
#include <math.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "rank/pairs.h"

enum { TEMPERATURE, MAX_NORM };

/* Puts entries of equal runtime in an order drawn from `key`. numbers (n,); draws (3n,). */
static void shuffle_ties(const tg_order *order, int64_t n, uint64_t key, uint32_t *numbers, uint64_t *draws) {
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && tg_order_tied(order, end - 1, end);) end++;
        if (end - first < 2) continue;
        for (int64_t p = first; p < end; p++) draws[p - first] = tg_draw(key, tg_order_at(order, p));
        const tg_order drawn = tg_sort_order(draws, end - first, draws + (end - first));
        for (int64_t p = first; p < end; p++)
            numbers[p] = tg_order_at(order, first + tg_order_at(&drawn, p - first));
    }
}

/* Numbers (n,) by descending runtime; entries of equal runtime in an order drawn from `key`. scratch (6n,). */
static void order_slowest_first(int64_t n, const int64_t *runtimes, uint64_t key, uint32_t *numbers,
                                uint64_t *scratch) {
    uint64_t *keys = scratch;
    for (int64_t i = 0; i < n; i++) keys[i] = ~tg_key_i64(runtimes[i]);
    const tg_order order = tg_sort_order(keys, n, scratch + n);
    uint64_t before = UINT64_MAX;
    int tied = 0;
    for (int64_t p = 0; p < n; p++) {
        const uint64_t item = order.packed[p];
        tied |= item >> 32 == before;
        before = item >> 32;
        numbers[p] = (uint32_t)item;
    }
    if (tied) shuffle_ties(&order, n, key, numbers, scratch + 3 * n);
}

/* Squared norm of the scores. */
static double norm2(const tg_list *list) {
    double sum = 0;
    for (int64_t i = 0; i < list->length; i++) sum += (double)list->scores[i] * (double)list->scores[i];
    return sum;
}

/* Loss, and `scale` times its gradient, of any scores times `factor`, with weights, at any temperature: every
   suffix keeps its own maximum. log_sum (n,) is overwritten. */
static double far_list(const tg_list *list, const uint32_t *numbers, double factor, double scale,
                       double *log_sum) {
    const double temperature = list->attr[TEMPERATURE];
    double most = -INFINITY, sum = 0, loss = 0;
    for (int64_t k = list->length - 1; k >= 0; k--) {
        double s = factor * (double)list->scores[numbers[k]] / temperature;
        if (s > most) {
            sum = sum * exp(most - s) + 1;
            most = s;
        } else {
            sum += exp(s - most);
        }
        log_sum[k] = most + log(sum);
        loss += tg_weight(list, numbers[k]) * (log_sum[k] - s);
    }
    /* d loss / d s_i = exp(s_i) sum_{k<=i} w_k exp(-log_sum[k]) - w_i; `ratio` is that sum times
       exp(log_sum[i]), and log_sum falls with k, so no factor exceeds 1. */
    double ratio = 0, before = log_sum[0], along = 0, *slope = log_sum;
    for (int64_t k = 0; k < list->length; k++) {
        const double score = (double)list->scores[numbers[k]], w = tg_weight(list, numbers[k]);
        ratio = ratio * exp(log_sum[k] - before) + w;
        before = log_sum[k];
        slope[k] = exp(factor * score / temperature - before) * ratio - w;
        along += slope[k] * score;
    }
    /* of scores whose norm is held, what lies along them has no effect */
    along = factor < 1 ? along / norm2(list) : 0;
    for (int64_t k = 0; k < list->length; k++) {
        const double rest = slope[k] - along * (double)list->scores[numbers[k]];
        list->gradient[numbers[k]] = (float)(rest * (factor * scale));
    }
    return loss;
}

typedef struct room {
    uint32_t *numbers; /* (n,) */
    uint64_t *work;    /* (6n,) of the order, then (2n + 14,) of the kernel */
} room;

static room take(tg_scratch *c, int64_t n) {
    room r;
    r.numbers = tg_take(c, n, sizeof *r.numbers);
    r.work = tg_take(c, 6 * n > 2 * n + 14 ? 6 * n : 2 * n + 14, sizeof *r.work);
    return r;
}

static double run(const tg_list *list) {
    const int64_t n = list->length;
    const double temperature = list->attr[TEMPERATURE], max_norm = list->attr[MAX_NORM];
    const double reduce = tg_reduce_entries(list), norm = max_norm > 0 ? sqrt(norm2(list)) : 0;
    const double factor = norm > max_norm ? max_norm / norm : 1;
    const double scale = reduce * list->share / temperature;
    tg_scratch c = {.base = list->scratch};
    const room r = take(&c, n);
    double loss, *work = (double *)r.work;
    order_slowest_first(n, list->order, list->key, r.numbers, r.work);
    if (list->weight != NULL || temperature != 1 || factor < 1 ||
        !tg_kernel_table()->list_mle(n, r.numbers, list->scores, scale, list->gradient, work, &loss))
        loss = far_list(list, r.numbers, factor, scale, work);
    return reduce * loss;
}

static double carve(tg_scratch *c, int64_t length) {
    take(c, length);
    return 100 * (double)length;
}

const tg_loss tg_loss_list_mle = {
    .name = "list_mle",
    .doc = "sum over k of log(sum over l >= k of exp(s_l)) - s_k, entries slowest first, ties by the seed",
    .least = 2,
    .reductions = 1u << TG_REDUCE_SUM | 1u << TG_REDUCE_MEAN_ALL,
    .reduction = TG_REDUCE_SUM,
    .reads = tg_reads_order,
    .carve = carve,
    .run = run,
    .attrs = TG_ATTRS([TEMPERATURE] = {.name = "temperature",
                                       .fallback = 1,
                                       .low = 1e-3,
                                       .high = 1e6,
                                       .doc = "scores are divided by it"},
                      [MAX_NORM] = {.name = "max_norm",
                                    .high = 1e30,
                                    .doc = "a list's scores are scaled down to this norm first; 0: never"}),
};
