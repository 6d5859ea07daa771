#include "graph/csr.h"

#include <stdlib.h>
#include <string.h>

tg_status tg_csr_build(tg_csr *csr, int32_t N, int32_t E, const int64_t *edge_index, int key, tg_error *err) {
    size_t entries = (size_t)N + 1 + (size_t)E;
    int32_t *block = calloc(entries, sizeof *block);
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d nodes and %d edges", N, E);
    *csr = (tg_csr){N, E, block, block + N + 1};
    for (int32_t e = 0; e < E; e++) csr->ptr[edge_index[2 * (int64_t)e + key] + 1]++;
    for (int32_t n = 0; n < N; n++) csr->ptr[n + 1] += csr->ptr[n];
    /* ptr[n] serves as row n's cursor and ends at the start of row n+1: shift back afterwards. */
    for (int32_t e = 0; e < E; e++) {
        const int64_t *edge = edge_index + 2 * (int64_t)e;
        csr->idx[csr->ptr[edge[key]]++] = (int32_t)edge[1 - key];
    }
    memmove(csr->ptr + 1, csr->ptr, (size_t)N * sizeof *csr->ptr);
    csr->ptr[0] = 0;
    return TG_OK;
}

void tg_csr_free(tg_csr *csr) {
    free(csr->ptr);
    *csr = (tg_csr){0, 0, NULL, NULL};
}
