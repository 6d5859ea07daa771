#include "graph/prune.h"

#include <stdlib.h>
#include <string.h>

#include "graph/csr.h"

/* Marks of a node. */
enum { KEPT = 1, CONFIG = 2 };

static tg_status check(const tg_prune_input *in, uint8_t *mark, tg_error *err) {
    for (int64_t i = 0; i < 2 * in->E; i++)
        if ((uint64_t)in->edge_index[i] >= (uint64_t)in->N)
            return tg_fail_field(err, "edge_index", "node ids in 0..N-1",
                                 "%lld in row %lld of a graph with N = %lld", (long long)in->edge_index[i],
                                 (long long)(i / 2), (long long)in->N);
    for (int64_t k = 0; k < in->K; k++) {
        int64_t node = in->config_nodes[k];
        if ((uint64_t)node >= (uint64_t)in->N)
            return tg_fail_field(err, "node_config_ids", "node ids in 0..N-1",
                                 "%lld at %lld of a graph with N = %lld", (long long)node, (long long)k,
                                 (long long)in->N);
        if (mark[node])
            return tg_fail_field(err, "node_config_ids", "distinct node ids", "node %lld again at %lld",
                                 (long long)node, (long long)k);
        mark[node] = KEPT | CONFIG;
    }
    return TG_OK;
}

static tg_status no_memory(const tg_prune_input *in, tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory to prune a graph of %lld nodes and %lld edges",
                   (long long)in->N, (long long)in->E);
}

static tg_status reserve(tg_pruned *out, int64_t N, int64_t E, const tg_prune_input *in, tg_error *err) {
    /* One block; the + 1 keeps malloc(0) from looking like a failure. Counts are below 2^31. */
    int64_t *block = malloc((size_t)(N + 2 * E + in->K + 1) * sizeof *block);
    if (block == NULL) return no_memory(in, err);
    *out = (tg_pruned){N, E, in->K, block, block + N, block + N + 2 * E};
    return TG_OK;
}

/* Does edge (u,v) stay? `one_hop`: an end is configurable; otherwise both ends are kept. */
static int edge_stays(const int64_t *edge, const uint8_t *mark, int one_hop) {
    uint8_t u = mark[edge[0]], v = mark[edge[1]];
    return one_hop ? (u | v) & CONFIG : u & v & KEPT;
}

/* The marked nodes in ascending order, and the edges that stay among them. mark (N,). */
static tg_status collect(tg_pruned *out, const tg_prune_input *in, const uint8_t *mark, int one_hop,
                         tg_error *err) {
    int64_t N = 0, E = 0;
    for (int64_t n = 0; n < in->N; n++) N += mark[n] & KEPT;
    for (int64_t e = 0; e < in->E; e++) E += edge_stays(in->edge_index + 2 * e, mark, one_hop) != 0;
    int64_t *rank = malloc((size_t)(in->N + 1) * sizeof *rank);
    if (rank == NULL) return no_memory(in, err);
    tg_status status = reserve(out, N, E, in, err);
    if (status == TG_OK) {
        int64_t next = 0;
        for (int64_t n = 0; n < in->N; n++)
            if (mark[n]) out->nodes[next] = n, rank[n] = next++;
        int64_t *edge = out->edge_index;
        for (int64_t e = 0; e < in->E; e++) {
            const int64_t *old = in->edge_index + 2 * e;
            if (!edge_stays(old, mark, one_hop)) continue;
            *edge++ = rank[old[0]];
            *edge++ = rank[old[1]];
        }
        for (int64_t k = 0; k < in->K; k++) out->config_nodes[k] = rank[in->config_nodes[k]];
    }
    free(rank);
    return status;
}

static tg_status config_only(tg_pruned *out, const tg_prune_input *in, uint8_t *mark, tg_error *err) {
    (void)mark;
    tg_status status = reserve(out, in->K, 0, in, err);
    if (status != TG_OK) return status;
    for (int64_t k = 0; k < in->K; k++) {
        out->nodes[k] = in->config_nodes[k];
        out->config_nodes[k] = k;
    }
    return TG_OK;
}

static tg_status config_1hop(tg_pruned *out, const tg_prune_input *in, uint8_t *mark, tg_error *err) {
    for (int64_t e = 0; e < in->E; e++) {
        const int64_t *edge = in->edge_index + 2 * e;
        if (!((mark[edge[0]] | mark[edge[1]]) & CONFIG)) continue;
        mark[edge[0]] |= KEPT;
        mark[edge[1]] |= KEPT;
    }
    return collect(out, in, mark, 1, err);
}

/* Breadth first from all configurable nodes at once, edges taken as undirected: O(N + E) for any hops. */
static tg_status k_hop(tg_pruned *out, const tg_prune_input *in, uint8_t *mark, tg_error *err) {
    tg_csr csr[2] = {{0}};
    int32_t *queue = malloc((size_t)(in->N + 1) * sizeof *queue);
    tg_status status = queue == NULL ? no_memory(in, err) : TG_OK;
    for (int key = 0; key < 2 && status == TG_OK; key++)
        status = tg_csr_build(&csr[key], (int32_t)in->N, (int32_t)in->E, in->edge_index, key, err);
    if (status == TG_OK) {
        int64_t head = 0, tail = 0;
        for (int64_t k = 0; k < in->K; k++) queue[tail++] = (int32_t)in->config_nodes[k];
        for (int64_t hop = 0; hop < in->hops && head < tail; hop++) {
            for (int64_t end = tail; head < end; head++)
                for (int key = 0; key < 2; key++)
                    for (int32_t i = csr[key].ptr[queue[head]]; i < csr[key].ptr[queue[head] + 1]; i++) {
                        int32_t node = csr[key].idx[i];
                        if (mark[node]) continue;
                        mark[node] = KEPT;
                        queue[tail++] = node;
                    }
        }
        status = collect(out, in, mark, 0, err);
    }
    tg_csr_free(&csr[0]);
    tg_csr_free(&csr[1]);
    free(queue);
    return status;
}

static const struct method {
    const char *name;
    tg_status (*run)(tg_pruned *out, const tg_prune_input *in, uint8_t *mark, tg_error *err);
} methods[] = {
    {"config-1hop", config_1hop},
    {"config-only", config_only},
    {"k-hop", k_hop},
};

tg_status tg_prune(tg_pruned *out, const char *method, const tg_prune_input *in, tg_error *err) {
    *out = (tg_pruned){0};
    const struct method *chosen = NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0) chosen = &methods[i];
    if (chosen == NULL)
        return tg_fail(err, TG_E_CONFIG,
                       "unknown pruning method '%.64s': expected config-1hop, config-only or k-hop", method);
    if (in->N < 0 || in->N >= INT32_MAX || in->E >= INT32_MAX || in->K > in->N)
        return tg_fail(err, TG_E_DATA,
                       "cannot prune a graph of %lld nodes, %lld edges and %lld configurable nodes",
                       (long long)in->N, (long long)in->E, (long long)in->K);
    if (in->hops < 1)
        return tg_fail(err, TG_E_CONFIG, "hops: expected at least 1, got %lld", (long long)in->hops);
    uint8_t *mark = calloc((size_t)in->N + 1, 1);
    if (mark == NULL) return no_memory(in, err);
    tg_status status = check(in, mark, err);
    if (status == TG_OK) status = chosen->run(out, in, mark, err);
    free(mark);
    return status;
}

void tg_pruned_free(tg_pruned *pruned) {
    free(pruned->nodes);
    *pruned = (tg_pruned){0};
}
