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
} tg_csr;

/* From edge_index (E,2), rows (u,v): key 0 lists for each u its v's, key 1 for each v its u's.
   Indices must already be checked. One malloc, freed by tg_csr_free. */
tg_status tg_csr_build(tg_csr *csr, int32_t N, int32_t E, const int64_t *edge_index, int key, tg_error *err);
void tg_csr_free(tg_csr *csr);

#endif
