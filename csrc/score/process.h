/* Gaussian processes of one graph (tg.ranker.GaussianProcess): the mean of the scores of configs, and choices. Covariances are Matern's
   with 3/2, in double precision; Python's means differ in their last digits, as its sums have another order. */
#ifndef TG_PROCESS_H
#define TG_PROCESS_H

#include "io/safetensors.h"

typedef struct tg_process tg_process;

/* What was learnt of `columns` prepared columns of configs. `*process` is NULL after an error. */
tg_status tg_process_read(tg_process **process, const tg_safetensors *file, int columns, tg_error *err);
void tg_process_free(tg_process *process); /* NULL is fine */

/* scores (n) of rows (n, columns). */
tg_status tg_process_scores(const tg_process *process, const float *rows, int64_t n, float *scores,
                            tg_error *err);

/* chosen (k), k <= n: rows to measure together, by samples of the process (tg_normal_together) for those with the least of
   mean less deviation; beyond 2,000 the best by mean. */
tg_status tg_process_choose(const tg_process *process, const float *rows, int64_t n, uint64_t seed, int64_t k,
                            int64_t *chosen, tg_error *err);

#endif
