#include "graph/prune.h"

#include <stdlib.h>
#include <string.h>

#include "graph/csr.h"

/* Marks of a node. */
enum { KEPT = 1, CONFIG = 2 };

static tg_status no_memory(const tg_prune_input *in, tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory to prune a graph of %lld nodes and %lld edges",
                   (long long)in->N, (long long)in->E);
}

/* edges (n,) from node ids (n,) read once, so that nobody can change them after the check; 0 if one of them is
   not in 0..N-1. */
static int narrow(int32_t *restrict edges, const int64_t *restrict ids, int64_t n, int32_t N) {
    uint64_t wide = 0;
    int32_t over = 0;
    for (int64_t i = 0; i < n; i++) {
        wide |= (uint64_t)ids[i] >> 31;
        edges[i] = (int32_t)ids[i];
    }
    for (int64_t i = 0; i < n; i++) over |= (edges[i] >= N) | (edges[i] < 0);
    return wide == 0 && !over;
}

static tg_status check(const tg_prune_input *in, int32_t *edges, uint8_t *mark, tg_error *err) {
    if (!narrow(edges, in->edge_index, 2 * in->E, (int32_t)in->N))
        for (int64_t i = 0; i < 2 * in->E; i++)
            if ((uint64_t)in->edge_index[i] >= (uint64_t)in->N)
                return tg_fail_field(err, "edge_index", "node ids in 0..N-1",
                                     "%lld in row %lld of a graph with N = %lld",
                                     (long long)in->edge_index[i], (long long)(i / 2), (long long)in->N);
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

static tg_status reserve(tg_pruned *out, int64_t N, int64_t E, const tg_prune_input *in, tg_error *err) {
    /* One block; the + 1 keeps malloc(0) from looking like a failure. Counts are below 2^31. */
    int64_t *block = malloc((size_t)(N + 2 * E + in->K + 1) * sizeof *block);
    if (block == NULL) return no_memory(in, err);
    *out = (tg_pruned){N, E, in->K, block, block + N, block + N + 2 * E};
    return TG_OK;
}

/* Moves the edges (E,2) that stay to the front, in their order, and returns their number. An edge stays if an
   end has `either`, and both have `both`. Which do is anybody's guess: no branch. */
static int64_t keep_edges(int32_t *edges, int64_t E, const uint8_t *mark, int either, int both) {
    int64_t kept = 0;
    for (int64_t e = 0; e < E; e++) {
        int32_t from = edges[2 * e], to = edges[2 * e + 1];
        uint8_t u = mark[from], v = mark[to];
        edges[2 * kept] = from;
        edges[2 * kept + 1] = to;
        kept += ((u | v) & either) == either && (u & v & both) == both;
    }
    return kept;
}

/* The marked nodes in ascending order, and edges (E,2) between them, renumbered. mark (N,). */
static tg_status collect(tg_pruned *out, const tg_prune_input *in, const int32_t *edges, int64_t E,
                         const uint8_t *mark, tg_error *err) {
    int32_t *rank = malloc((size_t)(in->N + 1) * sizeof *rank);
    if (rank == NULL) return no_memory(in, err);
    int64_t N = 0;
    for (int64_t n = 0; n < in->N; n++) {
        rank[n] = (int32_t)N;
        N += mark[n] & KEPT;
    }
    tg_status status = reserve(out, N, E, in, err);
    if (status == TG_OK) {
        for (int64_t n = 0; n < in->N; n++)
            if (mark[n] & KEPT) out->nodes[rank[n]] = n;
        for (int64_t i = 0; i < 2 * E; i++) out->edge_index[i] = rank[edges[i]];
        for (int64_t k = 0; k < in->K; k++) out->config_nodes[k] = rank[in->config_nodes[k]];
    }
    free(rank);
    return status;
}

static tg_status config_only(tg_pruned *out, const tg_prune_input *in, int32_t *edges, uint8_t *mark,
                             tg_error *err) {
    (void)edges;
    (void)mark;
    tg_status status = reserve(out, in->K, 0, in, err);
    if (status != TG_OK) return status;
    for (int64_t k = 0; k < in->K; k++) {
        out->nodes[k] = in->config_nodes[k];
        out->config_nodes[k] = k;
    }
    return TG_OK;
}

static tg_status config_1hop(tg_pruned *out, const tg_prune_input *in, int32_t *edges, uint8_t *mark,
                             tg_error *err) {
    int64_t E = keep_edges(edges, in->E, mark, CONFIG, 0);
    for (int64_t i = 0; i < 2 * E; i++) mark[edges[i]] |= KEPT;
    return collect(out, in, edges, E, mark, err);
}

/* Up to this many hops are counted by walking through all edges once per hop, without sorting them by node. */
enum { SWEEPS = 8 };

/* Marks nodes within `hops` <= SWEEPS hops of a configurable one, edges taken as undirected. After h walks
   (Bellman, Ford) distances up to h are right, and all others are more than h. */
static void near_by_sweeps(const tg_prune_input *in, const int32_t *edges, uint8_t *mark) {
    uint8_t *far = mark; /* the distance, in the place of the marks; hops + 1 stands for all beyond */
    for (int64_t n = 0; n < in->N; n++) far[n] = mark[n] ? 0 : (uint8_t)(in->hops + 1);
    int changed = 1;
    for (int64_t hop = 0; hop < in->hops && changed; hop++) {
        changed = 0;
        for (int64_t e = 0; e < in->E; e++) {
            int32_t a = edges[2 * e], b = edges[2 * e + 1];
            int u = far[a], v = far[b];
            if ((unsigned)(u - v + 1) <= 2) continue; /* nearly always */
            if (u < v) far[b] = (uint8_t)(u + 1);
            else far[a] = (uint8_t)(v + 1);
            changed = 1;
        }
    }
    for (int64_t n = 0; n < in->N; n++) mark[n] = far[n] <= in->hops ? KEPT : 0;
}

/* The same for any number of hops, breadth first: O(N + E). */
static tg_status near_by_queue(const tg_prune_input *in, const int32_t *edges, uint8_t *mark, tg_error *err) {
    tg_csr csr[2] = {{0}};
    int32_t *queue = malloc((size_t)(in->N + 1) * sizeof *queue);
    int64_t *wide = malloc((size_t)(2 * in->E + 1) * sizeof *wide);
    tg_status status = queue == NULL || wide == NULL ? no_memory(in, err) : TG_OK;
    for (int64_t i = 0; status == TG_OK && i < 2 * in->E; i++) wide[i] = edges[i];
    for (int key = 0; key < 2 && status == TG_OK; key++)
        status = tg_csr_build(&csr[key], (int32_t)in->N, (int32_t)in->E, wide, key, err);
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
    }
    tg_csr_free(&csr[0]);
    tg_csr_free(&csr[1]);
    free(queue);
    free(wide);
    return status;
}

static tg_status k_hop(tg_pruned *out, const tg_prune_input *in, int32_t *edges, uint8_t *mark,
                       tg_error *err) {
    tg_status status = TG_OK;
    if (in->hops <= SWEEPS) near_by_sweeps(in, edges, mark);
    else status = near_by_queue(in, edges, mark, err);
    if (status != TG_OK) return status;
    return collect(out, in, edges, keep_edges(edges, in->E, mark, 0, KEPT), mark, err);
}

static const struct method {
    const char *name;
    tg_status (*run)(tg_pruned *out, const tg_prune_input *in, int32_t *edges, uint8_t *mark, tg_error *err);
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
    int32_t *edges = malloc((size_t)(2 * in->E + 2) * sizeof *edges);
    tg_status status = mark == NULL || edges == NULL ? no_memory(in, err) : check(in, edges, mark, err);
    if (status == TG_OK) status = chosen->run(out, in, edges, mark, err);
    free(edges);
    free(mark);
    return status;
}

void tg_pruned_free(tg_pruned *pruned) {
    free(pruned->nodes);
    *pruned = (tg_pruned){0};
}
