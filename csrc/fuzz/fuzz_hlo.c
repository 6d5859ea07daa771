/* libFuzzer target of the reader of HLO: any bytes as a file. What is accepted must be a graph: edges between its
   nodes, all layouts in range, sizes as measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hlo/fusions.h"
#include "hlo/work.h"

#define MAX_BYTES (64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Arrays of exactly the measured sizes; 0 without memory. */
static int allocate(tg_hlo_graph *g) {
    const size_t N = (size_t)g->N, C = (size_t)g->C, K = (size_t)g->K;
    g->node_feat = malloc(N * TG_NODE_FEATURES * sizeof(float));
    g->node_opcode = malloc(N);
    g->extra = malloc(N * TG_EXTRA_FEATURES * sizeof(float));
    g->instruction_ids = malloc(N * sizeof(int64_t));
    g->computation_sizes = malloc((size_t)g->computations * sizeof(int64_t));
    g->node_splits = malloc((size_t)g->S * sizeof(int64_t));
    g->node_config_ids = malloc(K * sizeof(int64_t) + 1);
    g->node_config_feat = malloc(C * K * TG_DIGITS + 1);
    g->config_feat = malloc(C * TG_TILE_FEATURES * sizeof(float) + 1);
    g->config_runtime = malloc(C * sizeof(int64_t) + 1);
    g->runtime_normalizers = malloc(C * sizeof(int64_t) + 1);
    return g->node_feat && g->node_opcode && g->extra && g->instruction_ids && g->computation_sizes &&
           g->node_splits && g->node_config_ids && g->node_config_feat && g->config_feat &&
           g->config_runtime && g->runtime_normalizers;
}

static void release(tg_hlo_graph *g) {
    free(g->node_feat), free(g->node_opcode), free(g->extra), free(g->instruction_ids);
    free(g->computation_sizes), free(g->node_splits), free(g->node_config_ids), free(g->node_config_feat);
    free(g->config_feat), free(g->config_runtime), free(g->runtime_normalizers);
}

static void check(tg_hlo_graph *g) {
    float sum = 0;
    for (int64_t i = 0; i < g->N * TG_NODE_FEATURES; i++) sum += g->node_feat[i];
    for (int64_t i = 0; i < g->N * TG_EXTRA_FEATURES; i++) sum += g->extra[i];
    if (sum != sum) abort();
    tg_hlo_sort_edges(&g->edges);
    for (int64_t i = 0; i < g->edges.count; i += 2) {
        const int64_t *edge = g->edges.items + i;
        if (edge[0] < 0 || edge[0] >= g->N || edge[1] < 0 || edge[1] >= g->N || edge[0] == edge[1]) abort();
        if (i > 0 && (edge[-2] > edge[0] || (edge[-2] == edge[0] && edge[-1] >= edge[1]))) abort();
    }
    if (g->node_splits[0] != 0 || g->node_splits[g->S - 1] != g->N) abort();
    for (int64_t i = 0; i < g->K; i++)
        if (g->node_config_ids[i] < 0 || g->node_config_ids[i] >= g->N) abort();
    for (int64_t i = 0; !g->tile && i < g->C * g->K * TG_DIGITS; i++)
        if (g->node_config_feat[i] < TG_DIGIT_MIN || g->node_config_feat[i] > TG_DIGIT_MAX) abort();
    for (int64_t i = 0; i < g->C; i++)
        if (g->config_runtime[i] <= 0 || g->runtime_normalizers[i] <= 0) abort();
}

/* Names lie in the file. */
static tg_status read_names(tg_hlo *hlo, const tg_hlo_graph *g, tg_wire file) {
    tg_wire(*names)[2] = malloc((size_t)g->N * sizeof *names);
    const tg_status status = names == NULL ? TG_E_MEMORY : tg_hlo_names(hlo, g, names);
    for (int64_t i = 0; i < 2 * g->N && status == TG_OK; i++) {
        const tg_wire name = names[i / 2][i % 2];
        if (name.at < file.at || name.end < name.at || name.end > file.end) abort();
    }
    free(names);
    return status;
}

/* What is counted is finite, whatever the file says. A program may be refused that is a graph. */
static void count_work(tg_hlo *hlo, const tg_hlo_graph *g) {
    float work[TG_WORK_COLUMNS];
    if (tg_hlo_work(hlo, g, work) != TG_OK) return;
    for (int i = 0; i < TG_WORK_COLUMNS; i++)
        if (!isfinite(work[i]) || work[i] < 0) abort();
}

/* A fusion of a graph is a graph. */
static tg_status read_fusions(tg_hlo *hlo, const tg_hlo_graph *g) {
    tg_hlo_fusions fusions;
    tg_status status = tg_hlo_find_fusions(hlo, g, &fusions);
    for (int more = 1, number = 0; status == TG_OK && number < 16; number++) {
        tg_hlo_graph fusion;
        status = tg_hlo_next_fusion(hlo, g, &fusions, &fusion, &more);
        const int made = status == TG_OK && more && allocate(&fusion);
        if (made) status = tg_hlo_read(hlo, &fusion);
        if (made && status == TG_OK) check(&fusion);
        if (made) release(&fusion);
        tg_hlo_free_graph(&fusion);
        if (!more) break;
    }
    tg_hlo_free_fusions(&fusions);
    return status;
}

/* Read all graphs of a file of which `changed`, if it is not NULL, is another byte when sizes are known. */
static tg_status read_all(tg_wire file, int padding, uint8_t *changed, uint8_t difference, tg_error *err) {
    tg_hlo hlo;
    tg_hlo_graph g;
    int more = 1;
    tg_status status = tg_hlo_open(&hlo, file, NULL, padding, NULL, err);
    while (status == TG_OK && more) {
        status = tg_hlo_next_graph(&hlo, &g, &more);
        if (status == TG_OK && more && g.N < MAX_BYTES / 1024 && g.C < MAX_BYTES / TG_DIGITS) {
            const int made = allocate(&g);
            if (changed != NULL) *changed ^= difference;
            if (made) status = tg_hlo_read(&hlo, &g);
            if (made && status == TG_OK) check(&g);
            if (made && status == TG_OK) status = read_names(&hlo, &g, file);
            if (made && status == TG_OK) status = read_fusions(&hlo, &g);
            if (made && status == TG_OK) count_work(&hlo, &g);
            release(&g);
        }
        tg_hlo_free_graph(&g);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err = {0};
    const int padding = -(int)(size & 1);
    const tg_status status = read_all((tg_wire){data, data + size}, padding, NULL, 0, &err);
    if (status != TG_OK && (err.message[0] == 0 || strchr(err.message, '\n') != NULL)) abort();
    if (status != TG_OK || size < 4) return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL) return 0;
    memcpy(copy, data, size);
    const uint32_t hash = (uint32_t)size * 2654435761u ^ data[size / 2] * 40503u ^ data[size / 3] * 9176u;
    read_all((tg_wire){copy, copy + size}, padding, copy + hash % size, (uint8_t)(1 + hash / size % 255),
             &err);
    free(copy);
    return 0;
}
