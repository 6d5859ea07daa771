/* ListMLE of one list. The usual code subtracts the maximum once and adds an epsilon inside the logarithm
   against log(0); here every suffix keeps its own maximum, so no epsilon is needed and none is used. */
#include "rank/lists.h"

#include <math.h>

#include "base/rng.h"
#include "rank/sort.h"

/* Items (n,) by descending runtime; entries of equal runtime in an order drawn from `key`. */
static void order_slowest_first(int64_t n, const int64_t *runtimes, uint64_t key, tg_keyed *items,
                                tg_keyed *spare) {
    for (int64_t i = 0; i < n; i++) items[i] = (tg_keyed){~tg_key_i64(runtimes[i]), i};
    tg_sort_keyed(items, spare, n);
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && items[end].key == items[first].key;) end++;
        if (end - first < 2) continue;
        for (int64_t p = first; p < end; p++) items[p].key = tg_draw(key, (uint64_t)items[p].index);
        tg_sort_keyed(items + first, spare, end - first);
    }
}

double tg_mle_list(int64_t length, const float *scores, const int64_t *runtimes, uint64_t key,
                   double *gradient, void *scratch) {
    tg_keyed *items = scratch, *spare = items + length + 1;
    double *log_sum = (double *)spare; /* the sort is done with it by then */
    order_slowest_first(length, runtimes, key, items, spare);
    double most = -INFINITY, sum = 0, loss = 0;
    for (int64_t k = length - 1; k >= 0; k--) {
        double s = scores[items[k].index];
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
        gradient[items[k].index] = exp((double)scores[items[k].index] - before) * ratio - 1;
    }
    return loss;
}
