/* The loss table: one line per loss, one file per loss or family. Only loss.c reads it. */
#ifndef TG_LOSS_TABLE_H
#define TG_LOSS_TABLE_H

#include "rank/loss.h"

#define TG_LOSS_LIST(LOSS)                                                                                   \
    LOSS(pairwise_hinge)                                                                                     \
    LOSS(list_mle)                                                                                           \
    LOSS(ranknet)                                                                                            \
    LOSS(lambda_rank)                                                                                        \
    LOSS(mse)                                                                                                \
    LOSS(log_mse)                                                                                            \
    LOSS(msle)                                                                                               \
    LOSS(mape)                                                                                               \
    LOSS(quantile)                                                                                           \
    LOSS(cross_entropy)                                                                                      \
    LOSS(permuted_margin)                                                                                    \
    LOSS(dcg_hinge)
#define TG_DECLARE(name) extern const tg_loss tg_loss_##name;
TG_LOSS_LIST(TG_DECLARE)
#undef TG_DECLARE

#endif
