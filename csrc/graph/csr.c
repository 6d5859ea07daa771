#include "graph/csr.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static tg_status reserve(tg_csr *csr, int32_t N, int32_t E, tg_error *err) {
    TG_ASSERT(N >= 0 && E >= 0);
    const size_t numbers = (size_t)N + 1 + 2 * (size_t)E;
    int32_t *block = calloc(numbers, sizeof *block);
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d nodes and %d edges", N, E);
    *csr = (tg_csr){N, E, block, block + N + 1, block + N + 1 + E, 0};
    return TG_OK;
}

static void find_max_degree(tg_csr *csr) {
    for (int32_t n = 0; n < csr->N; n++)
        if (csr->ptr[n + 1] - csr->ptr[n] > csr->max_degree) csr->max_degree = csr->ptr[n + 1] - csr->ptr[n];
}

tg_status tg_csr_build(tg_csr *csr, int32_t N, int32_t E, const int64_t *edge_index, int key, tg_error *err) {
    TG_ASSERT(key == 0 || key == 1);
    for (int64_t i = 0; i < 2 * (int64_t)E; i++) TG_ASSERT(edge_index[i] >= 0 && edge_index[i] < N);
    const tg_status status = reserve(csr, N, E, err);
    if (status != TG_OK) return status;
    for (int32_t e = 0; e < E; e++) csr->ptr[edge_index[2 * (int64_t)e + key] + 1]++;
    for (int32_t n = 0; n < N; n++) csr->ptr[n + 1] += csr->ptr[n];
    /* ptr[n] serves as row n's cursor and ends at the start of row n+1: shift back afterwards. */
    for (int32_t e = 0; e < E; e++) {
        const int64_t *edge = edge_index + 2 * (int64_t)e;
        const int32_t at = csr->ptr[edge[key]]++;
        csr->idx[at] = (int32_t)edge[1 - key];
        csr->edge[at] = e;
    }
    memmove(csr->ptr + 1, csr->ptr, (size_t)N * sizeof *csr->ptr);
    csr->ptr[0] = 0;
    find_max_degree(csr);
    return TG_OK;
}

tg_status tg_csr_merge(tg_csr *csr, const tg_csr *first, const tg_csr *second, int against, tg_error *err) {
    const int64_t entries = (int64_t)first->E + second->E;
    TG_ASSERT(first->N == second->N && (against == 0 || against == 1));
    if (entries > INT32_MAX) return tg_fail(err, TG_E_DATA, "too many edges: %d", first->E);
    const tg_status status = reserve(csr, first->N, (int32_t)entries, err);
    if (status != TG_OK) return status;
    const tg_csr *parts[2] = {first, second};
    int32_t at = 0;
    for (int32_t n = 0; n < first->N; n++) {
        csr->ptr[n] = at;
        for (int p = 0; p < 2; p++)
            for (int32_t i = parts[p]->ptr[n]; i < parts[p]->ptr[n + 1]; i++, at++) {
                csr->idx[at] = parts[p]->idx[i];
                csr->edge[at] = parts[p]->edge[i] + (p == against ? parts[p]->E : 0);
            }
    }
    csr->ptr[first->N] = at;
    find_max_degree(csr);
    return TG_OK;
}

void tg_csr_free(tg_csr *csr) {
    free(csr->ptr);
    *csr = (tg_csr){0, 0, NULL, NULL, NULL, 0};
}
