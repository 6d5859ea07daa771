/* The best codes so far, in bounded memory: a heap of a fixed number of them, of which the k best are taken that differ
   from one another. Of equal scores the earlier is better, so the order of work decides nothing. */
#ifndef TG_BEST_H
#define TG_BEST_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_best {
    int64_t P, room, count;
    double *score;   /* (room), the worst first */
    int64_t *number; /* (room): the how-manieth that was put, from 0 */
    int32_t *code;   /* (room, P) */
    int64_t put;     /* codes that were put so far */
} tg_best;

/* For codes (P) and the best `room` >= 1 of them. Free also after an error. */
tg_status tg_best_new(tg_best *best, int64_t P, int64_t room, tg_error *err);
void tg_best_free(tg_best *best);

/* Another code with its score, which is not NaN; an infinite one only counts. */
void tg_best_put(tg_best *best, const int32_t *code, double score);

/* rows (k): those in the heap that are the best of all that differ in at least `differ` parameters from each better one
   that was taken; *found of them. */
tg_status tg_best_take(const tg_best *best, int64_t k, int64_t differ, int64_t *rows, int64_t *found,
                       tg_error *err);

#endif
