/* Metrics of one ranking: scores (smaller = predicted faster) against measured runtimes. All are O(n log n).
   Scores that are NaN are an error; infinite ones are ordered like others. */
#ifndef TG_METRICS_H
#define TG_METRICS_H

#include <stdint.h>

#include "base/status.h"

typedef enum { TG_NUMBER_F32, TG_NUMBER_F64, TG_NUMBER_I64, TG_NUMBER_I32 } tg_number;

/* data (n,) of one type. */
typedef struct tg_numbers {
    const void *data;
    tg_number type;
    int64_t n;
} tg_numbers;

/* Keys (n,) whose unsigned order is the order of x; TG_E_DATA naming the index if x holds a NaN. */
tg_status tg_number_keys(tg_numbers x, const char *name, uint64_t *keys, tg_error *err);

/* How the n(n-1)/2 pairs of (x, y) fall. */
typedef struct tg_pairs {
    int64_t all, tied_x, tied_y, tied_both, discordant;
} tg_pairs;

/* Counts pairs over x_keys (n,), y_keys (n,) by sorting and merging (Knight 1966), exactly. */
tg_status tg_count_pairs(int64_t n, const uint64_t *x_keys, const uint64_t *y_keys, tg_pairs *pairs,
                         tg_error *err);

/* scores (n,), runtimes (n,) -> value. k is read by top_k_slowdown and ndcg only. */
typedef tg_status tg_metric(tg_numbers scores, tg_numbers runtimes, int64_t k, double *value, tg_error *err);

tg_metric tg_kendall_tau; /* tau-b; 0 if either side is constant or n < 2 */
tg_metric
    tg_opa; /* share of pairs of different runtimes in the right order, equal scores are wrong; 0 if none */
tg_metric tg_spearman;       /* Pearson of mid-ranks; 0 if either side is constant or n < 2 */
tg_metric tg_top_k_slowdown; /* best runtime among the k smallest scores / best runtime - 1; ties by index */
tg_metric tg_ndcg;           /* gain best/runtime, discount 1/log2(place + 1), k places; ties by index */

#endif
