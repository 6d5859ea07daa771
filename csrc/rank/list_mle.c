/* ListMLE of one list. The usual code subtracts the maximum once and adds an epsilon inside the logarithm
   against log(0); here every suffix keeps its own maximum, so no epsilon is needed and none is used. */
#include "rank/lists.h"

#include <math.h>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "rank/sort.h"

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

/* Loss, and `scale` times its gradient (n,), of any scores: every suffix keeps its own maximum. log_sum (n,) is
   overwritten. */
static double far_list(int64_t length, const uint32_t *numbers, const float *scores, double scale,
                       float *gradient, double *log_sum) {
    double most = -INFINITY, sum = 0, loss = 0;
    for (int64_t k = length - 1; k >= 0; k--) {
        double s = scores[numbers[k]];
        if (s > most) {
            sum = sum * exp(most - s) + 1;
            most = s;
        } else {
            sum += exp(s - most);
        }
        log_sum[k] = most + log(sum);
        loss += log_sum[k] - s;
    }
    /* d loss / d s_i = exp(s_i) sum_{k<=i} exp(-log_sum[k]) - 1; `ratio` is that sum times exp(log_sum[i]),
       and log_sum falls with k, so no factor exceeds 1. */
    double ratio = 0, before = 0;
    for (int64_t k = 0; k < length; k++) {
        ratio = k == 0 ? 1 : ratio * exp(log_sum[k] - before) + 1;
        before = log_sum[k];
        gradient[numbers[k]] = (float)((exp((double)scores[numbers[k]] - before) * ratio - 1) * scale);
    }
    return loss;
}

double tg_mle_list(int64_t length, const float *scores, const int64_t *runtimes, uint64_t key, double scale,
                   float *gradient, void *scratch) {
    uint32_t *numbers = scratch;
    uint64_t *work = (uint64_t *)scratch + (length + 1) / 2;
    double loss;
    order_slowest_first(length, runtimes, key, numbers, work);
    if (tg_kernel_table()->list_mle(length, numbers, scores, scale, gradient, (double *)work, &loss))
        return loss;
    return far_list(length, numbers, scores, scale, gradient, (double *)work);
}
