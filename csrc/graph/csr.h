/* Compressed sparse rows of a directed graph, and the validation of edge lists that everything relies on. */
#ifndef TG_CSR_H
#define TG_CSR_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_csr {
    int32_t N;    /* rows */
    int32_t E;    /* entries */
    int32_t *ptr; /* (N+1): row n is idx[ptr[n] .. ptr[n+1]) */
    int32_t *idx; /* (E): neighbours, in the order of the edge list */
    /* (E): row of the edge list that an entry stands for. Where both directions are in one list, an edge taken against
       its direction has that + the length of the edge list. An edge has the same number in the lists by sender and by
       receiver. */
    int32_t *edge;
    int32_t max_degree;
} tg_csr;

/* From edge_index (E,2), rows (u,v): key 0 lists for each u its v's, key 1 for each v its u's.
   Indices must already be checked. One block, freed by tg_csr_free. */
tg_status tg_csr_build(tg_csr *csr, int32_t N, int32_t E, const int64_t *edge_index, int key, tg_error *err);
/* Both directions: row n has its entries of `first`, then those of `second`. Of the two, `against` (0 or 1) says which
   one is taken against the direction of its edges. */
tg_status tg_csr_merge(tg_csr *csr, const tg_csr *first, const tg_csr *second, int against, tg_error *err);
void tg_csr_free(tg_csr *csr);

#endif
