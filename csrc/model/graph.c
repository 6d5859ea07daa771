#include "model/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static tg_status check(const tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes,
                       tg_error *err) {
    for (int64_t e = 0; e < 2 * (int64_t)g->E; e++)
        if (edge_index[e] < 0 || edge_index[e] >= g->N)
            return tg_fail_field(err, "edge_index", "node numbers in 0..N-1",
                                 "%lld in row %lld of a graph of %d node%s", (long long)edge_index[e],
                                 (long long)(e / 2), g->N, TG_S(g->N));
    for (int32_t k = 0; k < g->K; k++)
        if (config_nodes[k] < 0 || config_nodes[k] >= g->N)
            return tg_fail_field(err, "config_nodes", "node numbers in 0..N-1",
                                 "%lld at position %d of a graph of %d node%s", (long long)config_nodes[k], k,
                                 g->N, TG_S(g->N));
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

/* Numbers that differ between rows of features and opcodes, most of the time. */
static uint64_t hash_node(const tg_graph *g, int32_t n) {
    uint64_t key = g->opcode == NULL ? 0 : g->opcode[n];
    for (int32_t f = 0; f < g->F; f++) {
        uint32_t bits;
        memcpy(&bits, g->node_feat + (int64_t)n * g->F + f, sizeof bits);
        key = tg_key(key, bits);
    }
    return key;
}

static int same_node(const tg_graph *g, int32_t a, int32_t b) {
    const size_t size = (size_t)g->F * sizeof(float);
    return (g->opcode == NULL || g->opcode[a] == g->opcode[b]) &&
           memcmp(g->node_feat + (int64_t)a * g->F, g->node_feat + (int64_t)b * g->F, size) == 0;
}

static int by_hash(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : x[1] > y[1];
}

/* alike(k): nodes of equal hash, in order, are compared with the first of them. */
static tg_status find_alike(tg_graph *g, tg_error *err) {
    uint64_t *keyed = malloc(((size_t)g->K + 1) * 2 * sizeof *keyed);
    if (keyed == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d nodes", g->N);
    for (int32_t k = 0; k < g->K; k++) {
        keyed[2 * k] = hash_node(g, g->config_node[k]);
        keyed[2 * k + 1] = (uint64_t)k;
    }
    qsort(keyed, (size_t)g->K, 2 * sizeof *keyed, by_hash);
    for (int32_t i = 0, first = 0; i < g->K; i++) {
        if (keyed[2 * i] != keyed[2 * first]) first = i;
        const int32_t k = (int32_t)keyed[2 * i + 1], like = (int32_t)keyed[2 * first + 1];
        g->alike[k] = same_node(g, g->config_node[k], g->config_node[like]) ? like : k;
    }
    free(keyed);
    return TG_OK;
}

static tg_status place_config_nodes(tg_graph *g, const int64_t *config_nodes, tg_error *err) {
    for (int32_t n = 0; n < g->N; n++) g->config_of[n] = -1;
    for (int32_t k = 0; k < g->K; k++) {
        TG_ASSERT(config_nodes[k] >= 0 && config_nodes[k] < g->N);
        if (g->config_of[config_nodes[k]] >= 0)
            return tg_fail_field(err, "config_nodes", "each node at most once", "node %lld twice",
                                 (long long)config_nodes[k]);
        g->config_of[config_nodes[k]] = k;
        g->config_node[k] = (int32_t)config_nodes[k];
    }
    return find_alike(g, err);
}

tg_status tg_graph_init(tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes, tg_error *err) {
    const tg_status status = check(g, edge_index, config_nodes, err);
    return status == TG_OK ? tg_graph_build(g, edge_index, config_nodes, err) : status;
}

tg_status tg_graph_build(tg_graph *g, const int64_t *edge_index, const int64_t *config_nodes, tg_error *err) {
    TG_ASSERT(g->N >= 1 && g->E >= 0 && g->K >= 0 && g->K <= g->N && g->F >= 0 && g->config_of == NULL);
    tg_status status = tg_csr_build(&g->by_source, g->N, g->E, edge_index, 0, err);
    if (status == TG_OK) status = tg_csr_build(&g->by_target, g->N, g->E, edge_index, 1, err);
    if (status == TG_OK) status = tg_csr_merge(&g->both_in, &g->by_target, &g->by_source, 1, err);
    if (status == TG_OK) status = tg_csr_merge(&g->both_out, &g->by_target, &g->by_source, 0, err);
    if (status != TG_OK) return status;
    g->config_of = malloc(((size_t)g->N + 2 * (size_t)g->K + 2 * (size_t)g->E + 1) * sizeof *g->config_of);
    g->inv_degree[0] = malloc((size_t)TG_DIRECTIONS * ((size_t)g->N + 1) * sizeof(float));
    if (g->config_of == NULL || g->inv_degree[0] == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %d nodes", g->N);
    g->config_node = g->config_of + g->N;
    g->alike = g->config_node + g->K;
    for (int end = 0; end < 2; end++) {
        g->ends[end] = g->alike + g->K + end * (size_t)g->E;
        for (int32_t e = 0; e < g->E; e++) g->ends[end][e] = (int32_t)edge_index[2 * (int64_t)e + end];
    }
    status = place_config_nodes(g, config_nodes, err);
    if (status != TG_OK) return status;
    const tg_csr *senders[TG_DIRECTIONS] = {&g->by_target, &g->by_source, &g->both_in};
    for (int d = 0; d < TG_DIRECTIONS; d++) {
        g->inv_degree[d] = g->inv_degree[0] + (size_t)d * ((size_t)g->N + 1);
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
    tg_csr_free(&g->both_in);
    tg_csr_free(&g->both_out);
    free(g->config_of);
    free(g->inv_degree[0]);
    for (int i = 0; i < TG_OWNED; i++) {
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
    TG_ASSERT(g->D == TG_DIGITS && g->codes.table == NULL && C >= 0 && entries >= 0);
    int8_t *wide = malloc((size_t)entries * 8 + 8);
    if (wide == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph");
    g->C = C;
    g->has_configs = 1;
    g->codes = (tg_codes){data, size, C, tg_all_config_nodes(g), entries, wide};
    return tg_codes_widen(wide, table, entries, err);
}

/* to(K,D) = the digits of one config, checked. */
static tg_status gather_row(const tg_graph *g, int64_t row, int8_t *to, tg_error *err) {
    if (g->codes.table != NULL)
        return g->among == NULL ? tg_codes_row(&g->codes, row, to, err)
                                : tg_codes_some(&g->codes, row, g->among, g->K, to, err);
    const int64_t width = (int64_t)g->K * g->D;
    const int8_t *from = g->digits + row * tg_all_config_nodes(g) * g->D;
    const int most = g->digit_rows - 3;
    for (int32_t k = 0; g->among != NULL && k < g->K; k++)
        memcpy(to + (int64_t)k * g->D, from + (int64_t)g->among[k] * g->D, (size_t)g->D);
    if (g->among == NULL && width > 0) memcpy(to, from, (size_t)width);
    for (int64_t i = 0; i < width; i++) {
        if ((uint8_t)(to[i] + 1) <= (unsigned)most + 1) continue;
        char expected[32];
        snprintf(expected, sizeof expected, "digits in -1..%d", most);
        return tg_fail_field(err, "digits", expected, "%d in config %lld, node %lld, column %lld", to[i],
                             (long long)row, (long long)(i / g->D), (long long)(i % g->D));
    }
    return TG_OK;
}

tg_status tg_gather_configs(const tg_entry *entry, int8_t *digits, float *config_feat, tg_error *err) {
    const tg_graph *g = entry->graph;
    const int64_t width = (int64_t)g->K * g->D;
    TG_ASSERT(width == 0 || digits != NULL);
    for (int32_t c = 0; c < entry->C; c++) {
        const int64_t row = entry->rows[c];
        if (row < 0 || row >= g->C)
            return tg_fail_field(err, "rows", "config rows in 0..C-1",
                                 "%lld at position %d of a graph of %lld config%s", (long long)row, c,
                                 (long long)g->C, TG_S(g->C));
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

int32_t tg_unique_cells(const tg_entry *entry, const int8_t *digits, tg_equal_cells equal, int32_t *unique_of,
                        int32_t *unique_at) {
    const tg_graph *g = entry->graph;
    TG_ASSERT(g->alike != NULL && entry->C >= 1);
    const int64_t cells = (int64_t)g->K * entry->C;
    const size_t width = (size_t)g->D;
    int64_t slots = 16, mask;
    if (cells > INT32_MAX) return -1;
    for (int64_t cell = 0; equal == TG_NO_CELLS && cell < cells; cell++)
        unique_of[cell] = unique_at[cell] = (int32_t)cell;
    if (equal == TG_NO_CELLS) return (int32_t)cells;
    while (slots < 2 * cells) slots *= 2;
    mask = slots - 1;
    int32_t *table = malloc((size_t)slots * sizeof *table), found = 0;
    if (table == NULL) return -1;
    memset(table, -1, (size_t)slots * sizeof *table);
    for (int64_t cell = 0; cell < cells; cell++) {
        const int32_t k = (int32_t)(cell / entry->C), c = (int32_t)(cell % entry->C),
                      like = equal == TG_ALIKE_CELLS ? g->alike[k] : k;
        const int8_t *mine = digits + ((int64_t)c * g->K + k) * g->D;
        uint64_t key = (uint64_t)like;
        for (size_t i = 0; i < width; i++) key = key * 0x100000001b3u + (uint8_t)mine[i];
        int64_t at = (int64_t)(tg_mix64(key) & (uint64_t)mask);
        for (;; at = (at + 1) & mask) {
            if (table[at] < 0) {
                unique_at[found] = (int32_t)cell;
                table[at] = found++;
                break;
            }
            const int32_t other = unique_at[table[at]], ok = other / entry->C, oc = other % entry->C;
            const int8_t *theirs = digits + ((int64_t)oc * g->K + ok) * g->D;
            if ((equal == TG_ALIKE_CELLS ? g->alike[ok] : ok) == like && memcmp(mine, theirs, width) == 0)
                break;
        }
        unique_of[cell] = table[at];
    }
    free(table);
    return found;
}

tg_slate tg_make_slate(const tg_entry *entry) {
    const tg_graph *g = entry->graph;
    TG_ASSERT(g != NULL && g->config_of != NULL && entry->C >= 1);
    return (tg_slate){.N = g->N,
                      .C = entry->C,
                      .K = g->K,
                      .opcode = g->opcode,
                      .layout = g->layout,
                      .config_of = g->config_of,
                      .E = g->E,
                      .digit_cols = g->D,
                      .digit_rows = g->digit_rows,
                      .config_node = g->config_node,
                      .senders = {&g->by_target, &g->by_source, &g->both_in},
                      .receivers = {&g->by_source, &g->by_target, &g->both_out},
                      .ends = {g->ends[0], g->ends[1]},
                      .inv_degree = {g->inv_degree[0], g->inv_degree[1], g->inv_degree[2]}};
}
