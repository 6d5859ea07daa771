#include "graph/prune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "graph/prune_work.h"

/* Edges that are read, checked and looked at while they are in the first cache. */
enum { BLOCK = 1024 };

tg_status tg_prune_no_memory(const tg_prune_input *in, tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory to prune a graph of %lld nodes and %lld edges",
                   (long long)in->N, (long long)in->E);
}

static tg_status bad_edge(const tg_prune_input *in, tg_error *err) {
    for (int64_t i = 0; i < 2 * in->E; i++) {
        const int64_t id = in->edge_index[i];
        if ((uint64_t)id >= (uint64_t)in->N)
            return tg_fail_field(err, "edge_index", "node ids in 0..N-1",
                                 "%lld in row %lld of a graph with N = %lld", (long long)id,
                                 (long long)(i / 2), (long long)in->N);
    }
    return tg_fail(err, TG_E_DATA, "edge_index: changed while it was read");
}

static tg_status mark_configs(const tg_prune_input *in, uint8_t *mark, tg_error *err) {
    for (int64_t k = 0; k < in->K; k++) {
        int64_t node = in->config_nodes[k];
        if ((uint64_t)node >= (uint64_t)in->N)
            return tg_fail_field(err, "node_config_ids", "node ids in 0..N-1",
                                 "%lld at %lld of a graph with N = %lld", (long long)node, (long long)k,
                                 (long long)in->N);
        if (mark[node])
            return tg_fail_field(err, "node_config_ids", "distinct node ids", "node %lld again at %lld",
                                 (long long)node, (long long)k);
        mark[node] = 1;
    }
    return TG_OK;
}

tg_status tg_prune_reserve(tg_pruned *out, int64_t N, int64_t E, const tg_prune_input *in, tg_error *err) {
    /* One block; the + 1 keeps malloc(0) from looking like a failure. Counts are below 2^31. */
    int64_t *block = malloc((size_t)(N + 2 * E + in->K + 1) * sizeof *block);
    if (block == NULL) return tg_prune_no_memory(in, err);
    *out = (tg_pruned){N, E, in->K, block, block + N, block + N + 2 * E};
    return TG_OK;
}

/* to (n,) from node ids (n,) read once, so that nobody can change them after the check; 0 if one of them is not in
   0..N-1. */
static int narrow(int32_t *restrict to, const int64_t *restrict ids, int64_t n, int32_t N) {
    uint64_t wide = 0;
    uint32_t over = 0, last = (uint32_t)N - 1;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t id = (uint64_t)ids[i];
        const uint32_t low = (uint32_t)id;
        wide |= id;
        over |= low | (last - low); /* the sign: negative, or more than N - 1 */
        to[i] = (int32_t)low;
    }
    return wide >> 31 == 0 && over >> 31 == 0;
}

/* Those of edges (n,2) with both ends marked, or with one at least, to `kept` (which may be `edges`), in their order;
   returns their number. Which they are is anybody's guess: no branch, and so one edge more than are kept is
   written. */
static inline __attribute__((always_inline)) int64_t keep(const int32_t *edges, int64_t n,
                                                          const uint8_t *mark, int both, int32_t *kept) {
    int64_t count = 0;
#pragma GCC unroll 4
    for (int64_t e = 0; e < n; e++) {
        uint64_t edge; /* both ends; which is in which half does not matter */
        memcpy(&edge, edges + 2 * e, sizeof edge);
        const int64_t u = mark[(uint32_t)edge], v = mark[edge >> 32];
        memcpy(kept + 2 * count, &edge, sizeof edge);
        count += both ? u & v : u | v;
    }
    return count;
}
static int64_t keep_touching(const int32_t *edges, int64_t n, const uint8_t *mark, int32_t *kept) {
    return keep(edges, n, mark, 0, kept);
}
static int64_t keep_inside(const int32_t *edges, int64_t n, const uint8_t *mark, int32_t *kept) {
    return keep(edges, n, mark, 1, kept);
}

/* The same as keep_touching, faster where few edges are kept: four at a time are passed over. */
static int64_t keep_few(const int32_t *edges, int64_t n, const uint8_t *mark, int32_t *kept) {
    int64_t count = 0, e = 0;
    for (; e + 4 <= n; e += 4) {
        unsigned touching = 0;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const int32_t *edge = edges + 2 * (e + i);
            touching |= (unsigned)(mark[edge[0]] | mark[edge[1]]) << i;
        }
        for (; touching != 0; touching &= touching - 1, count++)
            memcpy(kept + 2 * count, edges + 2 * (e + __builtin_ctz(touching)), 2 * sizeof *kept);
    }
    return count + keep_touching(edges + 2 * e, n - e, mark, kept + 2 * count);
}

tg_status tg_prune_read(const tg_prune_input *in, const uint8_t *mark, int32_t *all, int32_t *touching,
                        int64_t *count, tg_error *err) {
    int32_t block[2 * BLOCK] __attribute__((aligned(64)));
    *count = 0;
    for (int64_t e = 0; e < in->E; e += BLOCK) {
        const int64_t n = in->E - e < BLOCK ? in->E - e : BLOCK;
        int32_t *edges = all == NULL ? block : all + 2 * e;
        if (!narrow(edges, in->edge_index + 2 * e, 2 * n, (int32_t)in->N)) return bad_edge(in, err);
        *count += keep_few(edges, n, mark, touching + 2 * *count);
    }
    return TG_OK;
}

int64_t tg_prune_mark_ends(const int32_t *edges, int64_t n, uint8_t *mark) {
    int64_t before = 0;
    for (int64_t i = 0; i < 2 * n; i++) {
        before += mark[edges[i]];
        mark[edges[i]] = 1;
    }
    return 2 * n - before;
}

/* Marks as bits: bit j of the result is mark[j], 0 or 1, of eight. */
static uint64_t eight_marks(const uint8_t *mark) {
    uint64_t eight;
    memcpy(&eight, mark, sizeof eight);
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) eight = __builtin_bswap64(eight);
    return eight * UINT64_C(0x0102040810204080) >> 56;
}

/* The N marked nodes in ascending order, and the first E edges of the work, all of them between marked nodes,
   renumbered. */
static tg_status collect(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, int64_t N,
                         int64_t E, tg_error *err) {
    tg_status status = tg_prune_reserve(out, N, E, in, err);
    if (status != TG_OK) return status;
    int32_t rank = 0;
    for (int64_t first = 0; first < in->N; first += 64) {
        uint64_t bits = 0;
        for (int64_t n = 0; n < 64 && first + n < in->N; n += 8)
            bits |= eight_marks(w->mark + first + n) << n;
        for (; bits != 0; bits &= bits - 1) {
            const int64_t node = first + __builtin_ctzll(bits);
            out->nodes[rank] = node;
            w->rank[node] = rank++;
        }
    }
    TG_ASSERT(rank == N);
    for (int64_t i = 0; i < 2 * E; i++) {
        TG_ASSERT(w->mark[w->edges[i]]);
        out->edge_index[i] = w->rank[w->edges[i]];
    }
    for (int64_t k = 0; k < in->K; k++) out->config_nodes[k] = w->rank[in->config_nodes[k]];
    return TG_OK;
}

static tg_status config_only(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w,
                             tg_error *err) {
    int64_t touching;
    tg_status status = tg_prune_read(in, w->mark, NULL, w->edges, &touching, err);
    if (status == TG_OK) status = tg_prune_reserve(out, in->K, 0, in, err);
    if (status != TG_OK) return status;
    for (int64_t k = 0; k < in->K; k++) {
        out->nodes[k] = in->config_nodes[k];
        out->config_nodes[k] = k;
    }
    return TG_OK;
}

static tg_status config_1hop(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w,
                             tg_error *err) {
    int64_t E;
    tg_status status = tg_prune_read(in, w->mark, NULL, w->edges, &E, err);
    if (status != TG_OK) return status;
    const int64_t N = in->K + tg_prune_mark_ends(w->edges, E, w->mark);
    return collect(out, in, w, N, E, err);
}

/* Up to this many hops are walked through all edges once per hop, without sorting them by node. */
enum { SWEEPS = 8 };

tg_status tg_prune_list(tg_csr *csr, const int32_t *edges, int64_t N, int64_t E, int key,
                        const tg_prune_input *in, tg_error *err) {
    int64_t *wide = malloc((size_t)(2 * E + 1) * sizeof *wide);
    if (wide == NULL) return tg_prune_no_memory(in, err);
    for (int64_t i = 0; i < 2 * E; i++) wide[i] = edges[i];
    const tg_status status = tg_csr_build(csr, (int32_t)N, (int32_t)E, wide, key, err);
    free(wide);
    return status;
}

/* Marks nodes within any number of hops of a configurable one, breadth first: O(N + E). first_key 0: edges taken as
   undirected, 1: from a node to its consumers alone. *count of them are marked then. */
static tg_status mark_near(const tg_prune_input *in, const int32_t *edges, int first_key, uint8_t *mark,
                           int64_t *count, tg_error *err) {
    tg_csr csr[2] = {{0}};
    int32_t *queue = malloc((size_t)(in->N + 1) * sizeof *queue);
    tg_status status = queue == NULL ? tg_prune_no_memory(in, err) : TG_OK;
    for (int key = first_key; key < 2 && status == TG_OK; key++)
        status = tg_prune_list(&csr[key], edges, in->N, in->E, key, in, err);
    if (status == TG_OK) {
        int64_t head = 0, tail = 0;
        for (int64_t k = 0; k < in->K; k++) queue[tail++] = (int32_t)in->config_nodes[k];
        for (int64_t hop = 0; hop < in->hops && head < tail; hop++) {
            for (int64_t end = tail; head < end; head++)
                for (int key = first_key; key < 2; key++)
                    for (int32_t i = csr[key].ptr[queue[head]]; i < csr[key].ptr[queue[head] + 1]; i++) {
                        int32_t node = csr[key].idx[i];
                        if (mark[node]) continue;
                        mark[node] = 1;
                        queue[tail++] = node;
                    }
        }
        *count = tail;
    }
    tg_csr_free(&csr[0]);
    tg_csr_free(&csr[1]);
    free(queue);
    return status;
}

static tg_status k_hop(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err) {
    int64_t count, N = in->K;
    tg_status status = tg_prune_read(in, w->mark, w->edges, w->spare, &count, err);
    if (status == TG_OK && in->hops > SWEEPS) status = mark_near(in, w->edges, 0, w->mark, &N, err);
    else if (status == TG_OK)
        for (int64_t hop = 1, more; (more = tg_prune_mark_ends(w->spare, count, w->mark)) > 0; hop++) {
            N += more;
            if (hop == in->hops) break;
            count = keep_touching(w->edges, in->E, w->mark, w->spare);
        }
    if (status != TG_OK) return status;
    return collect(out, in, w, N, keep_inside(w->edges, in->E, w->mark, w->edges), err);
}

static tg_status consumers(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err) {
    int64_t touching, N;
    tg_status status = tg_prune_read(in, w->mark, w->edges, w->spare, &touching, err);
    if (status == TG_OK) status = mark_near(in, w->edges, 1, w->mark, &N, err);
    if (status != TG_OK) return status;
    return collect(out, in, w, N, keep_inside(w->edges, in->E, w->mark, w->edges), err);
}

/* before (N) of every node that is reached from the last: its neighbour nearer to that one, of several the smallest;
   -1 of the last and of those that are not reached. */
static tg_status find_paths(const tg_prune_input *in, const int32_t *edges, int32_t *before, tg_error *err) {
    tg_csr csr[2] = {{0}};
    int32_t *queue = malloc((size_t)(2 * in->N + 1) * sizeof *queue);
    tg_status status = queue == NULL ? tg_prune_no_memory(in, err) : TG_OK;
    for (int key = 0; key < 2 && status == TG_OK; key++)
        status = tg_prune_list(&csr[key], edges, in->N, in->E, key, in, err);
    if (status == TG_OK && in->N > 0) {
        int32_t *steps = queue + in->N;
        for (int64_t n = 0; n < in->N; n++) before[n] = steps[n] = -1;
        int64_t head = 0, tail = 0;
        queue[tail++] = (int32_t)in->N - 1;
        steps[in->N - 1] = 0;
        for (; head < tail; head++)
            for (int key = 0; key < 2; key++)
                for (int32_t i = csr[key].ptr[queue[head]]; i < csr[key].ptr[queue[head] + 1]; i++) {
                    const int32_t from = queue[head], to = csr[key].idx[i];
                    if (steps[to] < 0) {
                        steps[to] = steps[from] + 1;
                        before[to] = from;
                        queue[tail++] = to;
                    } else if (steps[to] == steps[from] + 1 && from < before[to]) before[to] = from;
                }
    }
    tg_csr_free(&csr[0]);
    tg_csr_free(&csr[1]);
    free(queue);
    return status;
}

static tg_status shortest_path(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w,
                               tg_error *err) {
    int32_t *before = w->rank; /* no longer needed when the nodes get new numbers */
    int64_t touching, N = in->K, E = 0;
    tg_status status = tg_prune_read(in, w->mark, w->edges, w->spare, &touching, err);
    if (status == TG_OK) status = find_paths(in, w->edges, before, err);
    uint8_t *walked = status == TG_OK ? calloc((size_t)in->N + 1, 1) : NULL; /* from the node to the last */
    if (status == TG_OK && walked == NULL) status = tg_prune_no_memory(in, err);
    if (status != TG_OK) return status;
    for (int64_t k = 0; k < in->K; k++)
        for (int64_t node = in->config_nodes[k]; before[node] >= 0 && !walked[node]; node = before[node]) {
            walked[node] = 1;
            N += !w->mark[before[node]];
            w->mark[before[node]] = 1;
        }
    for (int64_t e = 0; e < in->E; e++) {
        const int32_t u = w->edges[2 * e], v = w->edges[2 * e + 1];
        if (!(walked[u] && before[u] == v) && !(walked[v] && before[v] == u)) continue;
        w->edges[2 * E] = u;
        w->edges[2 * E++ + 1] = v;
    }
    free(walked);
    return collect(out, in, w, N, E, err);
}

static const struct method {
    const char *name;
    int all_edges; /* reads edges that are not at a configurable node */
    tg_status (*run)(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err);
} methods[] = {
    {"config-1hop", 0, config_1hop}, {"config-only", 0, config_only},     {"k-hop", 1, k_hop},
    {"consumers", 1, consumers},     {"shortest-path", 1, shortest_path}, {"meta", 1, tg_prune_meta},
    {"merge", 1, tg_prune_merge},
};

static tg_status unknown(const char *method, tg_error *err) {
    char known[192] = "";
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", methods[i].name);
    }
    return tg_fail(err, TG_E_CONFIG, "unknown pruning method '%.64s': expected one of %s", method, known);
}

tg_status tg_prune(tg_pruned *out, const char *method, const tg_prune_input *in, tg_error *err) {
    TG_ASSERT(in->E >= 0 && in->K >= 0 && (in->E == 0 || in->edge_index != NULL));
    *out = (tg_pruned){0};
    const struct method *chosen = NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, method) == 0) chosen = &methods[i];
    if (chosen == NULL) return unknown(method, err);
    if (in->N < 0 || in->N >= INT32_MAX || in->E >= INT32_MAX || in->K > in->N)
        return tg_fail(err, TG_E_DATA,
                       "cannot prune a graph of %lld nodes, %lld edges and %lld configurable nodes",
                       (long long)in->N, (long long)in->E, (long long)in->K);
    if (in->hops < 1)
        return tg_fail(err, TG_E_CONFIG, "hops: expected at least 1, got %lld", (long long)in->hops);
    const size_t ends = (size_t)(2 * in->E + 2);
    tg_prune_work w = {calloc((size_t)in->N + 8, 1), malloc((size_t)(in->N + 1) * sizeof *w.rank),
                       malloc(ends * sizeof *w.edges), NULL};
    if (chosen->all_edges) w.spare = malloc(ends * sizeof *w.spare);
    tg_status status = TG_OK;
    if (w.mark == NULL || w.rank == NULL || w.edges == NULL || (chosen->all_edges && w.spare == NULL))
        status = tg_prune_no_memory(in, err);
    if (status == TG_OK) status = mark_configs(in, w.mark, err);
    if (status == TG_OK) status = chosen->run(out, in, &w, err);
    free(w.spare);
    free(w.edges);
    free(w.rank);
    free(w.mark);
    return status;
}

void tg_pruned_free(tg_pruned *pruned) {
    free(pruned->nodes);
    *pruned = (tg_pruned){0};
}
