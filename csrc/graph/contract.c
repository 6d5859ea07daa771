/* Methods of pruning that contract what lies between configurable nodes: to edges (meta), to single nodes (merge). */
#include <stdlib.h>
#include <string.h>

#include "graph/prune_work.h"

/* ---- meta ---- */

/* Edges on their way. */
typedef struct pairs {
    int64_t n, room;
    int64_t *pair; /* (room, 2) */
} pairs;

static tg_status add_pair(pairs *p, int64_t u, int64_t v, const tg_prune_input *in, tg_error *err) {
    if (p->n == p->room) {
        const int64_t room = 2 * p->room + 64;
        int64_t *more =
            room < INT32_MAX ? realloc(p->pair, (size_t)(2 * room) * sizeof *more) : NULL; /* as any graph */
        if (more == NULL) return tg_prune_no_memory(in, err);
        p->pair = more;
        p->room = room;
    }
    p->pair[2 * p->n] = u;
    p->pair[2 * p->n++ + 1] = v;
    return TG_OK;
}

/* What a search works with; a node counts as seen if it has the number of the search. */
typedef struct search {
    tg_csr operands;
    int32_t *seen, *stack; /* (N) */
} search;

/* Appends (k, j) for every other configurable node j whose output gets to configurable node k past none of them, in
   the order of j. `rank` (N) has the numbers of configurable nodes. */
static tg_status reach(const tg_prune_input *in, const tg_prune_work *w, search *s, int32_t k, pairs *p,
                       tg_error *err) {
    int64_t n = 0;
    s->stack[n++] = (int32_t)in->config_nodes[k];
    s->seen[in->config_nodes[k]] = k;
    while (n > 0) {
        const int32_t node = s->stack[--n];
        for (int32_t i = s->operands.ptr[node]; i < s->operands.ptr[node + 1]; i++) {
            const int32_t next = s->operands.idx[i];
            if (s->seen[next] == k) continue;
            s->seen[next] = k;
            if (!w->mark[next]) s->stack[n++] = next;
        }
    }
    tg_status status = TG_OK;
    for (int32_t j = 0; status == TG_OK && j < in->K; j++)
        if (j != k && s->seen[in->config_nodes[j]] == k) status = add_pair(p, k, j, in, err);
    return status;
}

tg_status tg_prune_meta(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err) {
    int64_t touching;
    pairs p = {0};
    search s = {.seen = malloc((size_t)(2 * in->N + 1) * sizeof *s.seen)};
    tg_status status = s.seen == NULL ? tg_prune_no_memory(in, err) : TG_OK;
    if (status == TG_OK) status = tg_prune_read(in, w->mark, w->edges, w->spare, &touching, err);
    if (status == TG_OK) status = tg_prune_list(&s.operands, w->edges, in->N, in->E, 0, in, err);
    if (status == TG_OK) s.stack = s.seen + in->N;
    for (int64_t n = 0; status == TG_OK && n < in->N; n++) s.seen[n] = -1;
    for (int32_t k = 0; status == TG_OK && k < in->K; k++) status = reach(in, w, &s, k, &p, err);
    if (status == TG_OK) status = tg_prune_reserve(out, in->K, p.n, in, err);
    for (int64_t k = 0; status == TG_OK && k < in->K; k++) {
        out->nodes[k] = in->config_nodes[k];
        out->config_nodes[k] = k;
    }
    if (status == TG_OK && p.n > 0) memcpy(out->edge_index, p.pair, (size_t)(2 * p.n) * sizeof *p.pair);
    tg_csr_free(&s.operands);
    free(s.seen);
    free(p.pair);
    return status;
}

/* ---- merge ---- */

enum { CONFIG = 2 }; /* mark of a configurable node; that of its neighbours is 1 */

/* The smallest node of the part that a node belongs to; ways are halved on the way. */
static int32_t part_of(int32_t *parent, int32_t node) {
    while (parent[node] != node) node = parent[node] = parent[parent[node]];
    return node;
}

/* parent (N): nodes that are neither configurable nor next to such a node belong to one part if a path between them
   passes only nodes of that kind; every other node is a part. */
static void find_parts(int32_t *parent, const tg_prune_input *in, const tg_prune_work *w) {
    for (int32_t n = 0; n < in->N; n++) parent[n] = n;
    for (int64_t e = 0; e < in->E; e++) {
        const int32_t *edge = w->edges + 2 * e;
        if (w->mark[edge[0]] | w->mark[edge[1]]) continue;
        const int32_t a = part_of(parent, edge[0]), b = part_of(parent, edge[1]);
        if (a < b) parent[b] = a;
        else parent[a] = b;
    }
}

/* Numbers the parts: first those without a configurable node, by their smallest node; then the configurable nodes in
   their order. nodes (N): which node of the graph a part is, -1: a new one. Returns how many there are. */
static int32_t number_parts(int32_t *parent, int32_t *nodes, const tg_prune_input *in,
                            const tg_prune_work *w) {
    int32_t count = 0;
    for (int32_t n = 0; n < in->N; n++) {
        if (w->mark[n] == CONFIG || parent[n] != n) continue;
        nodes[count] = w->mark[n] == 1 && !in->dummies ? n : -1;
        w->rank[n] = count++;
    }
    for (int64_t k = 0; k < in->K; k++, count++) {
        nodes[count] = (int32_t)in->config_nodes[k];
        w->rank[in->config_nodes[k]] = count;
    }
    for (int32_t n = 0; n < in->N; n++) w->rank[n] = w->rank[part_of(parent, n)];
    return count;
}

/* Edges between different parts, each once: consumer by consumer, to `edges` (E,2). Returns how many there are.
   seen (N): scratch. */
static int64_t distinct_edges(int32_t *edges, const tg_csr *operands, int32_t *seen) {
    int64_t E = 0;
    for (int32_t n = 0; n < operands->N; n++) seen[n] = -1;
    for (int32_t u = 0; u < operands->N; u++)
        for (int32_t i = operands->ptr[u]; i < operands->ptr[u + 1]; i++) {
            const int32_t v = operands->idx[i];
            if (v == u || seen[v] == u) continue;
            seen[v] = u;
            edges[2 * E] = u;
            edges[2 * E++ + 1] = v;
        }
    return E;
}

tg_status tg_prune_merge(tg_pruned *out, const tg_prune_input *in, const tg_prune_work *w, tg_error *err) {
    int64_t touching, E = 0;
    int32_t N = 0, *parent = malloc((size_t)(2 * in->N + 1) * sizeof *parent), *nodes = NULL;
    tg_csr operands = {0};
    tg_status status = parent == NULL ? tg_prune_no_memory(in, err) : TG_OK;
    if (status == TG_OK) status = tg_prune_read(in, w->mark, w->edges, w->spare, &touching, err);
    if (status == TG_OK) {
        tg_prune_mark_ends(w->spare, touching, w->mark);
        for (int64_t k = 0; k < in->K; k++) w->mark[in->config_nodes[k]] = CONFIG;
        nodes = parent + in->N;
        find_parts(parent, in, w);
        N = number_parts(parent, nodes, in, w);
        for (int64_t i = 0; i < 2 * in->E; i++) w->edges[i] = w->rank[w->edges[i]];
        status = tg_prune_list(&operands, w->edges, N, in->E, 0, in, err);
    }
    if (status == TG_OK) {
        E = distinct_edges(w->edges, &operands, parent);
        status = tg_prune_reserve(out, N, E, in, err);
    }
    for (int64_t n = 0; status == TG_OK && n < N; n++) out->nodes[n] = nodes[n];
    for (int64_t i = 0; status == TG_OK && i < 2 * E; i++) out->edge_index[i] = w->edges[i];
    for (int64_t k = 0; status == TG_OK && k < in->K; k++) out->config_nodes[k] = N - in->K + k;
    tg_csr_free(&operands);
    free(parent);
    return status;
}
