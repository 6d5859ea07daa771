#include "model/segment.h"

#include <stdlib.h>
#include <string.h>

int32_t tg_segment_nodes(int32_t N, int64_t most) {
    TG_ASSERT(N >= 1 && most >= 1);
    return (int32_t)(N / (N / most + 1)) + 1;
}

int32_t tg_segments(int32_t N, int64_t most) {
    const int32_t nodes = tg_segment_nodes(N, most);
    return N / nodes + (N % nodes > 0);
}

/* An edge of the whole graph, and its row there. */
typedef struct numbered {
    int32_t row;
    int64_t edge[2];
} numbered;

static int by_row(const void *a, const void *b) {
    const numbered *x = a, *y = b;
    return x->row < y->row ? -1 : x->row > y->row;
}

static int by_number(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* edges (E,2) of the segment's own node numbers, in the order of the whole's edge list; returns E. */
static int32_t find_edges(const tg_csr *by_source, int32_t begin, int32_t end, numbered *found,
                          int64_t *edges) {
    int32_t n = 0;
    for (int32_t u = begin; u < end; u++)
        for (int32_t i = by_source->ptr[u]; i < by_source->ptr[u + 1]; i++) {
            const int32_t v = by_source->idx[i];
            if (v >= begin && v < end) found[n++] = (numbered){by_source->edge[i], {u - begin, v - begin}};
        }
    if (n > 0) qsort(found, (size_t)n, sizeof *found, by_row);
    for (int32_t e = 0; e < n; e++) memcpy(edges + 2 * (int64_t)e, found[e].edge, sizeof found[e].edge);
    return n;
}

/* among (K): which of the configurable nodes of the whole are in the segment; nodes (K): their numbers there. */
static int32_t find_config_nodes(const tg_graph *whole, int32_t begin, int32_t end, int32_t *among,
                                 int64_t *nodes) {
    int32_t n = 0;
    for (int32_t v = begin; v < end; v++)
        if (whole->config_of[v] >= 0) among[n++] = whole->config_of[v];
    if (n > 0) qsort(among, (size_t)n, sizeof *among, by_number);
    for (int32_t k = 0; k < n; k++) nodes[k] = whole->config_node[among[k]] - begin;
    return n;
}

/* Everything that the whole owns is its own. */
static void forget(tg_graph *g) {
    const tg_csr none = {0, 0, NULL, NULL, NULL, 0};
    g->by_source = g->by_target = g->both_in = g->both_out = none;
    g->config_of = g->config_node = g->alike = NULL;
    for (int d = 0; d < TG_DIRECTIONS; d++) g->inv_degree[d] = NULL;
    memset(g->owned, 0, sizeof g->owned);
    g->codes.table = NULL;
}

static tg_status copy_table(tg_graph *segment, const tg_codes *codes, tg_error *err) {
    if (codes->table == NULL) return TG_OK;
    const size_t size = (size_t)codes->entries * 8 + 8;
    int8_t *table = malloc(size);
    if (table == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a segment");
    memcpy(table, codes->table, size - 8);
    segment->codes.table = table;
    return TG_OK;
}

static tg_status build(tg_graph *segment, const tg_graph *whole, int32_t begin, void *room, tg_error *err) {
    const int32_t most = whole->by_source.ptr[begin + segment->N] - whole->by_source.ptr[begin];
    numbered *found = room;
    int64_t *edges = (int64_t *)(found + most), *nodes = edges + 2 * (int64_t)most;
    int32_t *among = (int32_t *)segment->owned[TG_OWNED_AMONG];
    segment->E = find_edges(&whole->by_source, begin, begin + segment->N, found, edges);
    segment->K = find_config_nodes(whole, begin, begin + segment->N, among, nodes);
    for (int32_t k = 0; k < segment->K && whole->among != NULL; k++) among[k] = whole->among[among[k]];
    segment->all_K = tg_all_config_nodes(whole);
    segment->among = among;
    const tg_status status = copy_table(segment, &whole->codes, err);
    return status == TG_OK ? tg_graph_build(segment, edges, nodes, err) : status;
}

tg_status tg_graph_cut(tg_graph *segment, const tg_graph *whole, int64_t most, int32_t which, tg_error *err) {
    const int32_t nodes = tg_segment_nodes(whole->N, most), begin = which * nodes;
    TG_ASSERT(which >= 0 && which < tg_segments(whole->N, most) && whole->config_of != NULL);
    *segment = *whole;
    forget(segment);
    segment->N = nodes < whole->N - begin ? nodes : whole->N - begin;
    segment->node_feat = whole->node_feat + (int64_t)begin * whole->F;
    if (whole->opcode != NULL) segment->opcode = whole->opcode + begin;
    if (whole->layout != NULL) segment->layout = whole->layout + (int64_t)begin * TG_LAYOUT_DIGITS;
    const size_t edges = (size_t)(whole->by_source.ptr[begin + segment->N] - whole->by_source.ptr[begin]);
    const size_t N = (size_t)segment->N;
    void *room = malloc(edges * (sizeof(numbered) + 2 * sizeof(int64_t)) + (N + 1) * sizeof(int64_t));
    segment->owned[TG_OWNED_AMONG] = malloc((N + 1) * sizeof(int32_t));
    tg_status status = TG_E_MEMORY;
    if (room != NULL && segment->owned[TG_OWNED_AMONG] != NULL)
        status = build(segment, whole, begin, room, err);
    else tg_fail(err, status, "no memory for a segment of %d nodes", segment->N);
    free(room);
    if (status != TG_OK) tg_graph_free(segment);
    return status;
}
