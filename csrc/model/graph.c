#include "model/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tg_status check(const tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes,
                       tg_error *err) {
    for (int64_t e = 0; e < 2 * (int64_t)g->E; e++)
        if (edge_index[e] < 0 || edge_index[e] >= g->N)
            return tg_fail_field(err, "edge_index", "node numbers in 0..N-1",
                                 "%lld in row %lld of a graph of %d nodes", (long long)edge_index[e],
                                 (long long)(e / 2), g->N);
    for (int32_t k = 0; k < g->K; k++)
        if (config_nodes[k] < 0 || config_nodes[k] >= g->N)
            return tg_fail_field(err, "config_nodes", "node numbers in 0..N-1",
                                 "%lld at position %d of a graph of %d nodes", (long long)config_nodes[k], k,
                                 g->N);
    for (int64_t i = 0; i < (int64_t)g->N * g->F; i++)
        if (!isfinite(g->node_feat[i]))
            return tg_fail_field(err, "node_feat", "finite numbers", "%g at node %lld, column %lld",
                                 (double)g->node_feat[i], (long long)(i / g->F), (long long)(i % g->F));
    for (int64_t i = 0; g->layout != NULL && i < 6 * (int64_t)g->N; i++)
        if (g->layout[i] < -2 || g->layout[i] > 5)
            return tg_fail_field(err, "layout_digits", "digits in -2..5", "%d at node %lld", g->layout[i],
                                 (long long)(i / 6));
    return TG_OK;
}

static tg_status merge(tg_graph *g, tg_error *err) {
    const int64_t entries = 2 * (int64_t)g->E;
    if (entries > INT32_MAX) return tg_fail(err, TG_E_DATA, "too many edges: %d", g->E);
    int32_t *block = malloc(((size_t)g->N + 1 + (size_t)entries) * sizeof *block);
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d edges", g->E);
    g->merged = (tg_csr){g->N, (int32_t)entries, block, block + g->N + 1};
    const tg_csr *parts[2] = {&g->by_target, &g->by_source};
    int32_t at = 0;
    for (int32_t n = 0; n < g->N; n++) {
        g->merged.ptr[n] = at;
        for (int p = 0; p < 2; p++) {
            int32_t count = parts[p]->ptr[n + 1] - parts[p]->ptr[n];
            memcpy(g->merged.idx + at, parts[p]->idx + parts[p]->ptr[n], (size_t)count * sizeof *block);
            at += count;
        }
    }
    g->merged.ptr[g->N] = at;
    return TG_OK;
}

tg_status tg_graph_init(tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes, tg_error *err) {
    tg_status status = check(g, edge_index, config_nodes, err);
    return status == TG_OK ? tg_graph_build(g, edge_index, config_nodes, err) : status;
}

tg_status tg_graph_build(tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes, tg_error *err) {
    tg_status status = tg_csr_build(&g->by_source, g->N, g->E, edge_index, 0, err);
    if (status == TG_OK) status = tg_csr_build(&g->by_target, g->N, g->E, edge_index, 1, err);
    if (status == TG_OK) status = merge(g, err);
    if (status != TG_OK) return status;
    g->config_of = malloc((size_t)(g->N + 1) * sizeof *g->config_of);
    g->inv_degree[0] = malloc((size_t)TG_DIRECTIONS * (size_t)(g->N + 1) * sizeof(float));
    if (g->config_of == NULL || g->inv_degree[0] == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d nodes", g->N);
    for (int32_t n = 0; n < g->N; n++) g->config_of[n] = -1;
    for (int32_t k = 0; k < g->K; k++) {
        if (g->config_of[config_nodes[k]] >= 0)
            return tg_fail_field(err, "config_nodes", "each node at most once", "node %lld twice",
                                 (long long)config_nodes[k]);
        g->config_of[config_nodes[k]] = k;
    }
    const tg_csr *senders[TG_DIRECTIONS] = {&g->by_target, &g->by_source, &g->merged};
    for (int d = 0; d < TG_DIRECTIONS; d++) {
        g->inv_degree[d] = g->inv_degree[0] + (size_t)d * (size_t)(g->N + 1);
        for (int32_t n = 0; n < g->N; n++) {
            int32_t degree = senders[d]->ptr[n + 1] - senders[d]->ptr[n];
            g->inv_degree[d][n] = degree > 0 ? 1.0f / (float)degree : 0.0f;
        }
    }
    return TG_OK;
}

void tg_graph_free(tg_graph *g) {
    tg_csr_free(&g->by_source);
    tg_csr_free(&g->by_target);
    tg_csr_free(&g->merged);
    free(g->config_of);
    free(g->inv_degree[0]);
    for (size_t i = 0; i < sizeof g->owned / sizeof *g->owned; i++) {
        free(g->owned[i]);
        g->owned[i] = NULL;
    }
    free((void *)(uintptr_t)g->codes.table);
    g->codes.table = NULL;
    g->config_of = NULL;
    g->inv_degree[0] = NULL;
}

tg_status tg_graph_set_codes(tg_graph *g, const void *data, int size, int64_t C, const int8_t *table,
                             int64_t entries, tg_error *err) {
    int8_t *wide = malloc((size_t)entries * 8 + 8);
    if (wide == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph");
    g->C = C;
    g->has_configs = 1;
    g->codes = (tg_codes){data, size, C, g->K, entries, wide};
    return tg_codes_widen(wide, table, entries, err);
}

/* to(K,18) = the digits of one config, checked. */
static tg_status gather_row(const tg_graph *g, int64_t row, int8_t *to, tg_error *err) {
    if (g->codes.table != NULL) return tg_codes_row(&g->codes, row, to, err);
    const int64_t width = (int64_t)g->K * TG_DIGITS;
    const int8_t *from = g->digits + row * width;
    for (int64_t i = 0; i < width; i++) {
        to[i] = from[i];
        if ((uint8_t)(to[i] + 1) > 6)
            return tg_fail_field(err, "digits", "digits in -1..5",
                                 "%d in config %lld, node %lld, column %lld", to[i], (long long)row,
                                 (long long)(i / TG_DIGITS), (long long)(i % TG_DIGITS));
    }
    return TG_OK;
}

tg_status tg_gather_configs(const tg_entry *entry, int8_t *digits, float *config_feat, tg_error *err) {
    const tg_graph *g = entry->graph;
    const int64_t width = (int64_t)g->K * TG_DIGITS;
    for (int32_t c = 0; c < entry->C; c++) {
        const int64_t row = entry->rows[c];
        if (row < 0 || row >= g->C)
            return tg_fail_field(err, "rows", "config rows in 0..C-1",
                                 "%lld at position %d of a graph of %lld configs", (long long)row, c,
                                 (long long)g->C);
        tg_status status = gather_row(g, row, digits + c * width, err);
        if (status != TG_OK) return status;
        for (int t = 0; config_feat != NULL && t < g->T; t++) {
            const float value = config_feat[(int64_t)c * g->T + t] = g->config_feat[row * g->T + t];
            if (!isfinite(value))
                return tg_fail_field(err, "config_feat", "finite numbers", "%g in config %lld, column %d",
                                     (double)value, (long long)row, t);
        }
    }
    return TG_OK;
}

tg_slate tg_make_slate(const tg_entry *entry) {
    const tg_graph *g = entry->graph;
    return (tg_slate){.N = g->N,
                      .C = entry->C,
                      .K = g->K,
                      .opcode = g->opcode,
                      .layout = g->layout,
                      .config_of = g->config_of,
                      .senders = {&g->by_target, &g->by_source, &g->merged},
                      .receivers = {&g->by_source, &g->by_target, &g->merged},
                      .inv_degree = {g->inv_degree[0], g->inv_degree[1], g->inv_degree[2]}};
}
