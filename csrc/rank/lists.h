/* The losses of one list; loss.c runs them over lists. All are exact in their counts and sums in double. */
#ifndef TG_LISTS_H
#define TG_LISTS_H

#include <stddef.h>
#include <stdint.h>

/* Lists up to this length take the direct O(L^2) hinge, which the compiler vectorises. */
#define TG_HINGE_DIRECT 256

/* Bytes of scratch (8-byte aligned) that either loss needs for a list of length L. */
size_t tg_list_scratch(int64_t length);

/* What the pairwise hinge is made of: `active` pairs y_i > y_j with s_j > s_i - margin, `pairs` pairs y_i >
   y_j in all. The loss is margin * active + sum_i counts[i] * s_i, and counts are its gradient. */
typedef struct tg_hinge_counts {
    int64_t active, pairs;
} tg_hinge_counts;

/* Fills counts (L,) = (active pairs in which i is the faster) - (those in which it is the slower).
   scores (L,) finite, runtimes (L,). `direct` chooses the algorithm; both give the same integers. */
tg_hinge_counts tg_hinge_list(int64_t length, const float *scores, const int64_t *runtimes, float margin,
                              int direct, int64_t *counts, void *scratch);

/* Negative log likelihood of the order slowest first under Plackett-Luce: sum_k [log sum_{l>=k} exp s_l -
   s_k]. Ties in runtimes are ordered at random by `key`. Fills gradient (L,) with `scale` times the gradient. */
double tg_mle_list(int64_t length, const float *scores, const int64_t *runtimes, uint64_t key, double scale,
                   float *gradient, void *scratch);

#endif
