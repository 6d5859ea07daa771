/* Ranks: processes that work together. The core links no MPI: whoever uses it brings the function that passes messages, as
   LightGBM's LGBM_NetworkInitWithFunctions takes them. */
#ifndef TG_COMM_H
#define TG_COMM_H

#include <stddef.h>

#include "base/status.h"

typedef struct tg_comm {
    int rank, size; /* number of this process, from 0 on, and of all */
    /* to(sum of sizes) = the bytes of all ranks, in order; mine(sizes[rank]) are those of this one. Every rank calls it with
       the same sizes(size). One byte each makes it a barrier. */
    tg_status (*allgather)(void *context, const void *mine, const size_t *sizes, void *to, tg_error *err);
    void *context;
} tg_comm;

#endif
