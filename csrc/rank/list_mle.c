/* ListMLE of one list. The usual code subtracts the maximum once and adds an epsilon inside the logarithm
   against log(0); here every suffix keeps its own maximum, so no epsilon is needed and none is used. */
#include "rank/lists.h"

#include <math.h>

#include "base/rng.h"
#include "rank/sort.h"

/* Numbers (n,) by descending runtime; entries of equal runtime in an order drawn from `key`. scratch (6n,). */
static void order_slowest_first(int64_t n, const int64_t *runtimes, uint64_t key, uint32_t *numbers,
                                uint64_t *scratch) {
    uint64_t *keys = scratch, *draws = scratch + 3 * n;
    for (int64_t i = 0; i < n; i++) keys[i] = ~tg_key_i64(runtimes[i]);
    const tg_order order = tg_sort_order(keys, n, scratch + n);
    for (int64_t p = 0; p < n; p++) numbers[p] = tg_order_at(&order, p);
    for (int64_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && tg_order_tied(&order, end - 1, end);) end++;
        if (end - first < 2) continue;
        for (int64_t p = first; p < end; p++) draws[p - first] = tg_draw(key, tg_order_at(&order, p));
        const tg_order drawn = tg_sort_order(draws, end - first, draws + (end - first));
        for (int64_t p = first; p < end; p++)
            numbers[p] = tg_order_at(&order, first + tg_order_at(&drawn, p - first));
    }
}

/* e^x to an ulp or two for -NEAR <= x <= 0, without a branch or a call: x = k ln2 + r, |r| <= ln2/2. */
#define NEAR 600.0
static inline double exp_near(double x) {
    double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;
    double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    uint64_t bits, power;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&power, &shifted, sizeof power);
    bits += power << 52;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* Loss and gradient (n,) of scores within NEAR of their maximum, where no exponential vanishes: one e^s per
   entry, and one logarithm per PRODUCT suffix sums, of the product of their mantissas. work (2n,). */
static double near_list(int64_t n, const uint32_t *numbers, const float *scores, float most, double *gradient,
                        double *work) {
    enum { PRODUCT = 512 };
    double *e = work, *inverse = work + n, sum = 0, product = 1, below = 0, ratio = 0, logs = 0;
    int64_t exponents = 0;
    for (int64_t i = 0; i < n; i++) e[i] = exp_near((double)scores[i] - (double)most);
    for (int64_t i = 0; i < n; i++) below += (double)most - (double)scores[i];
    for (int64_t k = n - 1; k >= 0; k--) {
        uint64_t bits;
        double mantissa;
        sum += e[numbers[k]];
        inverse[k] = sum;
        memcpy(&bits, &sum, sizeof bits);
        exponents += (int64_t)(bits >> 52) - 1023;
        bits = (bits & (UINT64_MAX >> 12)) | UINT64_C(1023) << 52;
        memcpy(&mantissa, &bits, sizeof mantissa);
        product *= mantissa;
        if (k % PRODUCT == 0) logs += log(product), product = 1;
    }
    for (int64_t k = 0; k < n; k++) inverse[k] = 1 / inverse[k];
    for (int64_t k = 0; k < n; k++) { /* d loss / d s_i = e_i sum_{k<=i} 1 / sum_k - 1 */
        ratio += inverse[k];
        gradient[numbers[k]] = e[numbers[k]] * ratio - 1;
    }
    return below + logs + (double)exponents * 0x1.62e42fefa39efp-1;
}

/* The same for any scores: every suffix keeps its own maximum. log_sum (n,) is overwritten. */
static double far_list(int64_t length, const uint32_t *numbers, const float *scores, double *gradient,
                       double *log_sum) {
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
        gradient[numbers[k]] = exp((double)scores[numbers[k]] - before) * ratio - 1;
    }
    return loss;
}

double tg_mle_list(int64_t length, const float *scores, const int64_t *runtimes, uint64_t key,
                   double *gradient, void *scratch) {
    uint32_t *numbers = scratch;
    uint64_t *work = (uint64_t *)scratch + (length + 1) / 2;
    order_slowest_first(length, runtimes, key, numbers, work);
    float least = scores[0], most = scores[0];
    for (int64_t i = 1; i < length; i++) {
        least = scores[i] < least ? scores[i] : least;
        most = scores[i] > most ? scores[i] : most;
    }
    if ((double)most - (double)least <= NEAR)
        return near_list(length, numbers, scores, most, gradient, (double *)work);
    return far_list(length, numbers, scores, gradient, (double *)work);
}
