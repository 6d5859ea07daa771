/* Gaussian processes over programs and configs (tg.ranker.MultiTaskGaussianProcess): the mean of the scores of configs. The
   covariance is a product of squared exponentials, of programs by what describes them and of configs by their columns. */
#ifndef TG_TASKS_H
#define TG_TASKS_H

#include "io/safetensors.h"

typedef struct tg_tasks tg_tasks;

/* What was learnt of programs described by so many numbers, and of `columns` prepared columns of configs. `*tasks` is NULL
   after an error. */
tg_status tg_tasks_read(tg_tasks **tasks, const tg_safetensors *file, int described, int columns,
                        tg_error *err);
void tg_tasks_free(tg_tasks *tasks); /* NULL is fine */

/* scores (n) of rows (n, columns) of a program (described). */
tg_status tg_tasks_scores(const tg_tasks *tasks, const double *program, const float *rows, int64_t n,
                          float *scores, tg_error *err);

#endif
