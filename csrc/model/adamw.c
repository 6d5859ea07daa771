#include <math.h>

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "model/model.h"

enum { BLOCK = 1 << 14, MOST_BLOCKS = 4096 };

/* Blocks of fixed size, their sums added in order: the same norm for any number of threads. */
double tg_global_norm(int64_t n, const float *g) {
    const tg_kernels *k = tg_kernel_table();
    double total = 0, sums[MOST_BLOCKS];
    for (int64_t start = 0; start < n; start += (int64_t)BLOCK * MOST_BLOCKS) {
        const int64_t rest = n - start,
                      blocks = rest < (int64_t)BLOCK * MOST_BLOCKS ? (rest + BLOCK - 1) / BLOCK : MOST_BLOCKS;
#pragma omp parallel for schedule(static) num_threads(tg_threads(2.0 * (double)n))
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t left = rest - i * BLOCK;
            sums[i] = k->sum_squares(left < BLOCK ? left : BLOCK, g + start + i * BLOCK);
        }
        for (int64_t i = 0; i < blocks; i++) total += sums[i];
    }
    return sqrt(total);
}

void tg_adamw_update(const tg_adamw *o, int64_t n, float *w, const float *g, float *m1, float *m2,
                     double scale) {
    const tg_kernels *k = tg_kernel_table();
    const float fix1 = (float)(1 / (1 - pow(o->beta1, (double)o->step)));
    const float fix2 = (float)(1 / sqrt(1 - pow(o->beta2, (double)o->step)));
#pragma omp parallel for schedule(static) num_threads(tg_threads(4.0 * (double)n))
    for (int64_t i = 0; i < n; i += BLOCK)
        k->adamw(n - i < BLOCK ? n - i : BLOCK, w + i, g + i, m1 + i, m2 + i, (float)scale, (float)o->lr,
                 (float)(1 - o->beta1), (float)(1 - o->beta2), (float)o->eps, (float)o->weight_decay, fix1,
                 fix2);
}
