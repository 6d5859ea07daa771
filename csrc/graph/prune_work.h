/* Shared by the methods of pruning, and private to their files. */
#ifndef TG_PRUNE_WORK_H
#define TG_PRUNE_WORK_H

#include "graph/csr.h"
#include "graph/prune.h"

/* What a method works with. */
typedef struct tg_prune_work {
    uint8_t *mark;  /* (N), 1: the node stays. First the configurable ones; 7 bytes more, 0 */
    int32_t *rank;  /* (N): new id of each node that stays, never written for the others */
    int32_t *edges; /* (E + 1, 2): those that may stay */
    int32_t *spare; /* (E + 1, 2), NULL unless the method reads all edges */
} tg_prune_work;

/* Reads and checks all edges, to `all` (E,2) if it is not NULL, and *count with a marked end to touching (E + 1, 2). */
tg_status tg_prune_read(const tg_prune_input *in, const uint8_t *mark, int32_t *all, int32_t *touching,
                        int64_t *count, tg_error *err);
/* Marks the ends of edges (n,2); returns how many nodes were not yet. */
int64_t tg_prune_mark_ends(const int32_t *edges, int64_t n, uint8_t *mark);
/* As tg_csr_build, of checked edges (E,2). */
tg_status tg_prune_list(tg_csr *csr, const int32_t *edges, int64_t N, int64_t E, int key,
                        const tg_prune_input *in, tg_error *err);
tg_status tg_prune_reserve(tg_pruned *out, int64_t N, int64_t E, const tg_prune_input *in, tg_error *err);
tg_status tg_prune_no_memory(const tg_prune_input *in, tg_error *err);

/* Methods that make edges, in contract.c. */
tg_status tg_prune_meta(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err);
tg_status tg_prune_merge(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err);

#endif
