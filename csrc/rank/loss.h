/* Ranking losses: value and gradient with respect to the scores in one pass. */
#ifndef TG_LOSS_H
#define TG_LOSS_H

#include <stdint.h>

#include "base/status.h"

typedef enum { TG_LOSS_PAIRWISE_HINGE, TG_LOSS_LIST_MLE } tg_loss_kind;
typedef enum { TG_REDUCE_MEAN_ALL, TG_REDUCE_SUM, TG_REDUCE_MEAN_PAIRS } tg_reduction;

typedef struct tg_loss_spec {
    tg_loss_kind kind;
    tg_reduction reduction; /* within a list; the value is the mean over lists */
    float margin;           /* pairwise hinge */
    uint64_t key;           /* breaks ties at random (ListMLE) */
    int64_t first;          /* number of the first list, where these are a part of many */
} tg_loss_spec;

/* scores (L,), runtimes (L,) of all lists together; list i is [offsets[i], offsets[i+1]). Lists shorter than
   2 contribute 0. Fills dscores (L,) with d loss / d scores. */
tg_status tg_loss_lists(const tg_loss_spec *spec, int64_t lists, const int64_t *offsets, const float *scores,
                        const int64_t *runtimes, float *dscores, double *loss, tg_error *err);

#endif
