#include "clib/loading.h"

#include <stdlib.h>
#include <string.h>

#include "features/schema.h"
#include "hlo/hlo.h"
#include "io/npz.h"
#include "io/pack.h"

void tg_loaded_free(tg_loaded *g) {
    void *const arrays[] = {g->node_feat, g->graph_feat, g->config_feat, g->opcode,
                            g->edges,     g->ids,        g->digits};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    *g = (tg_loaded){0};
}

/* Room for count items; NULL with err. */
static void *room(int64_t count, int64_t size, tg_error *err) {
    void *block = count < 0 || count > (INT64_MAX - 1) / size ? NULL : malloc((size_t)(count * size) + 1);
    if (block == NULL) tg_fail(err, TG_E_MEMORY, "no memory for a graph");
    return block;
}

/* ---- npz ---- */

/* The array `field` as numbers of 64 bits (whole) or 32; its shape, or -1 in shape[0] if there is none. */
static tg_status read_array(tg_npz *npz, const char *field, int ndim, int whole, void **to, int64_t *shape,
                            tg_error *err) {
    const tg_member *member = tg_zip_find(&npz->archive, field);
    tg_npy npy;
    *to = NULL;
    shape[0] = -1;
    if (member == NULL) return TG_OK;
    tg_status status = tg_npz_header(npz, member, &npy, err);
    if (status != TG_OK) return status;
    if (npy.ndim != ndim || (npy.fortran && ndim > 1))
        return tg_fail_field(err, field, "an array of other dimensions, in C order", "%d", npy.ndim);
    uint8_t *stored = room(npy.count, npy.type.itemsize, err);
    *to = stored == NULL ? NULL : room(npy.count, whole ? 8 : 4, err);
    if (*to == NULL) status = TG_E_MEMORY;
    if (status == TG_OK) status = tg_npz_read(npz, member, &npy, stored, err);
    int64_t bad = -1;
    if (status == TG_OK)
        bad = whole ? tg_whole_from(npy.type, stored, npy.count, *to)
                    : tg_floats_from(npy.type, stored, npy.count, *to);
    if (status == TG_OK && bad >= 0)
        status = tg_fail_field(err, field, whole ? "whole numbers" : "finite numbers", "another at %lld",
                               (long long)bad);
    free(stored);
    memcpy(shape, npy.shape, sizeof npy.shape);
    return status;
}

static tg_status read_opcodes(tg_npz *npz, tg_loaded *g, tg_error *err) {
    int64_t shape[3];
    void *codes;
    tg_status status = read_array(npz, "node_opcode", 1, 1, &codes, shape, err);
    if (status == TG_OK && shape[0] >= 0 && shape[0] != g->N)
        status = tg_fail_field(err, "node_opcode", "one per node", "%lld", (long long)shape[0]);
    if (status == TG_OK && codes != NULL && (g->opcode = room(g->N, 1, err)) == NULL) status = TG_E_MEMORY;
    for (int64_t n = 0; status == TG_OK && codes != NULL && n < g->N; n++) {
        const int64_t code = ((const int64_t *)codes)[n];
        if (code < 0 || code > UINT8_MAX)
            status = tg_fail_field(err, "node_opcode", "numbers in 0..255", "%lld", (long long)code);
        g->opcode[n] = (uint8_t)code;
    }
    free(codes);
    return status;
}

/* Digits of any schema, or of the published one, which may be stored as floats. */
static tg_status read_digits(tg_npz *npz, tg_loaded *g, tg_error *err) {
    int64_t shape[3];
    void *digits;
    tg_status status = read_array(npz, "node_config_feat", 3, 1, &digits, shape, err);
    if (status != TG_OK || digits == NULL) {
        free(digits);
        return status;
    }
    const int64_t count = shape[0] * shape[1] * shape[2];
    g->C = shape[0], g->D = shape[2];
    if (shape[1] != g->K)
        status = tg_fail_field(err, "node_config_feat", "one row per configurable node", "%lld",
                               (long long)shape[1]);
    if (status == TG_OK && (g->digits = room(count, 1, err)) == NULL) status = TG_E_MEMORY;
    for (int64_t i = 0; status == TG_OK && i < count; i++) {
        const int64_t digit = ((const int64_t *)digits)[i];
        if (digit < -1 || digit >= TG_MOST_DIGIT_VALUES)
            status = tg_fail_field(err, "node_config_feat", "digits in -1..31", "%lld", (long long)digit);
        g->digits[i] = (int8_t)digit;
    }
    free(digits);
    return status;
}

static tg_status read_npz(tg_npz *npz, tg_loaded *g, tg_error *err) {
    int64_t shape[3];
    tg_status status = read_array(npz, "node_feat", 2, 0, (void **)&g->node_feat, shape, err);
    if (status == TG_OK && g->node_feat == NULL)
        status = tg_fail_field(err, "node_feat", "an array of (nodes, columns)", "none");
    g->N = shape[0], g->F = shape[1];
    if (status == TG_OK) status = read_opcodes(npz, g, err);
    if (status == TG_OK) status = read_array(npz, "edge_index", 2, 1, (void **)&g->edges, shape, err);
    if (status == TG_OK && g->edges != NULL && shape[1] != 2)
        status = tg_fail_field(err, "edge_index", "two columns", "%lld", (long long)shape[1]);
    if (g->edges != NULL) g->E = shape[0];
    if (status == TG_OK) status = read_array(npz, "graph_feat", 1, 0, (void **)&g->graph_feat, shape, err);
    if (status == TG_OK && g->graph_feat != NULL) g->G = shape[0];
    if (status == TG_OK) status = read_array(npz, "node_config_ids", 1, 1, (void **)&g->ids, shape, err);
    if (status == TG_OK && g->ids != NULL) g->K = shape[0];
    if (status == TG_OK) status = read_digits(npz, g, err);
    if (status != TG_OK) return status;
    status = read_array(npz, "config_feat", 2, 0, (void **)&g->config_feat, shape, err);
    if (status != TG_OK || g->config_feat == NULL) return status;
    if (g->digits != NULL && shape[0] != g->C)
        return tg_fail_field(err, "config_feat", "a row for each config", "%lld", (long long)shape[0]);
    g->C = shape[0], g->T = shape[1];
    return TG_OK;
}

static tg_status load_npz(tg_loaded *to, tg_source source, tg_error *err) {
    tg_npz npz;
    tg_status status = tg_npz_open(&npz, source, NULL, err);
    if (status == TG_OK) status = read_npz(&npz, to, err);
    tg_npz_close(&npz);
    return status;
}

/* ---- packs ---- */

/* A checked copy of an array; NULL if the pack has none, or with an error. */
static void *copy_part(const tg_pack *pack, const uint8_t *bytes, tg_part part, tg_status *status,
                       tg_error *err) {
    const tg_pack_array *a = &pack->part[part];
    if (*status != TG_OK || a->itemsize == 0) return NULL;
    if ((*status = tg_pack_check_part(pack, bytes, part, err)) != TG_OK) return NULL;
    void *to = room(a->bytes, 1, err);
    if (to == NULL) *status = TG_E_MEMORY;
    else memcpy(to, bytes + a->offset, (size_t)a->bytes);
    return to;
}

/* Configs of the published layouts are numbers of a table. */
static tg_status decode(const tg_pack *pack, const uint8_t *bytes, tg_loaded *g, tg_error *err) {
    const tg_pack_array *a = &pack->part[TG_CODES], *table = &pack->part[TG_TABLE];
    if (a->itemsize == 0) return TG_OK;
    tg_status status = tg_pack_check_configs(pack, bytes, NULL, err);
    if (status != TG_OK) return status;
    g->C = a->shape[0], g->D = TG_DIGITS;
    int8_t *wide = room(table->shape[0] + 1, 8, err);
    g->digits = g->K > 0 && g->C > INT64_MAX / 64 / g->K ? NULL : room(g->C * g->K * g->D, 1, err);
    if (wide == NULL || g->digits == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for configs");
    const tg_codes codes = {bytes + a->offset, a->itemsize, g->C, g->K, table->shape[0], wide};
    if (status == TG_OK)
        status = tg_codes_widen(wide, (const int8_t *)bytes + table->offset, table->shape[0], err);
    for (int64_t c = 0; status == TG_OK && c < g->C; c++)
        status = tg_codes_row(&codes, c, g->digits + c * g->K * g->D, err);
    free(wide);
    return status;
}

static tg_status load_pack(tg_loaded *g, const uint8_t *bytes, size_t size, tg_error *err) {
    tg_pack pack;
    tg_status status =
        tg_pack_parse(&pack, bytes, size < TG_PACK_HEADER ? size : TG_PACK_HEADER, (int64_t)size, err);
    if (status != TG_OK) return status;
    const int any = pack.kind == TG_PACK_ANY;
    const tg_part nodes = any ? TG_ANY_NODES : TG_NODE_FEAT, edges = any ? TG_ANY_EDGES : TG_EDGE_INDEX,
                  ids = any ? TG_ANY_IDS : TG_CONFIG_NODES, configs = any ? TG_ANY_CONFIGS : TG_CONFIG_FEAT;
    g->node_feat = copy_part(&pack, bytes, nodes, &status, err);
    g->opcode = copy_part(&pack, bytes, any ? TG_ANY_OPCODE : TG_NODE_OPCODE, &status, err);
    g->edges = copy_part(&pack, bytes, edges, &status, err);
    g->ids = copy_part(&pack, bytes, ids, &status, err);
    g->config_feat = copy_part(&pack, bytes, configs, &status, err);
    if (any) g->graph_feat = copy_part(&pack, bytes, TG_ANY_GRAPH, &status, err);
    if (any) g->digits = copy_part(&pack, bytes, TG_ANY_DIGITS, &status, err);
    if (status != TG_OK) return status;
    g->N = pack.part[nodes].shape[0], g->F = pack.part[nodes].shape[1];
    g->E = g->edges == NULL ? 0 : pack.part[edges].shape[0];
    g->K = g->ids == NULL ? 0 : pack.part[ids].shape[0];
    g->G = g->graph_feat == NULL ? 0 : pack.part[TG_ANY_GRAPH].shape[0];
    if (g->config_feat != NULL) g->C = pack.part[configs].shape[0], g->T = pack.part[configs].shape[1];
    if (g->digits != NULL) g->C = pack.part[TG_ANY_DIGITS].shape[0], g->D = pack.part[TG_ANY_DIGITS].shape[2];
    return any ? TG_OK : decode(&pack, bytes, g, err);
}

/* Packs are read in place, where their numbers are aligned. */
static tg_status load_aligned(tg_loaded *to, const uint8_t *bytes, size_t size, tg_error *err) {
    if ((uintptr_t)bytes % sizeof(int64_t) == 0) return load_pack(to, bytes, size, err);
    uint8_t *copy = room((int64_t)size, 1, err);
    if (copy == NULL) return TG_E_MEMORY;
    memcpy(copy, bytes, size);
    const tg_status status = load_pack(to, copy, size, err);
    free(copy);
    return status;
}

/* ---- HLO ---- */

static tg_status read_hlo(tg_hlo *hlo, tg_hlo_graph *h, tg_loaded *g, tg_error *err) {
    g->N = h->N, g->F = TG_NODE_FEATURES, g->K = h->K, g->C = h->C;
    int64_t *spare = room(2 * h->C + h->N + h->computations + h->S, 8, err);
    g->node_feat = room(g->N * g->F, 4, err);
    g->opcode = room(g->N, 1, err);
    g->ids = room(g->K, 8, err);
    if (h->tile) g->T = TG_TILE_FEATURES, g->config_feat = room(g->C * g->T, 4, err);
    else if (h->C > 0) g->D = TG_DIGITS, g->digits = room(g->C * g->K, g->D, err);
    tg_status status = spare == NULL || g->node_feat == NULL || g->opcode == NULL || g->ids == NULL ||
                               (h->C > 0 && g->digits == NULL && g->config_feat == NULL)
                           ? TG_E_MEMORY
                           : TG_OK;
    h->node_feat = g->node_feat, h->node_opcode = g->opcode, h->node_config_ids = g->ids;
    h->node_config_feat = g->digits, h->config_feat = g->config_feat;
    h->config_runtime = spare, h->runtime_normalizers = spare + h->C;
    h->instruction_ids = spare + 2 * h->C, h->computation_sizes = h->instruction_ids + h->N;
    h->node_splits = h->computation_sizes + h->computations;
    if (status == TG_OK) status = tg_hlo_read(hlo, h);
    free(spare);
    if (status != TG_OK) return status;
    tg_hlo_sort_edges(&h->edges);
    g->E = h->edges.count / 2;
    if ((g->edges = room(h->edges.count, 8, err)) == NULL) return TG_E_MEMORY;
    if (h->edges.count > 0) memcpy(g->edges, h->edges.items, (size_t)h->edges.count * sizeof *g->edges);
    return TG_OK;
}

static tg_status load_hlo(tg_loaded *to, const uint8_t *bytes, size_t size, tg_error *err) {
    tg_hlo *hlo = room(1, sizeof *hlo, err);
    tg_hlo_graph graph;
    int more = 0;
    if (hlo == NULL) return TG_E_MEMORY;
    tg_status status = tg_hlo_open(hlo, (tg_wire){bytes, bytes + size}, NULL, 0, NULL, err);
    if (status == TG_OK) {
        status = tg_hlo_next_graph(hlo, &graph, &more);
        graph.most_edges = INT32_MAX / 2;
        if (status == TG_OK && !more) status = tg_fail_field(err, "file", "a program", "none");
        if (status == TG_OK) status = read_hlo(hlo, &graph, to, err);
        tg_hlo_free_graph(&graph);
    }
    free(hlo);
    return status;
}

tg_status tg_load_graph(tg_loaded *to, const uint8_t *bytes, size_t size, tg_error *err) {
    *to = (tg_loaded){0};
    if (size == 0) return tg_fail_field(err, "file", "an .npz, a pack, or HLO", "nothing");
    if (size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        return load_npz(to, (tg_source){-1, bytes, (int64_t)size}, err);
    if (size >= 7 && memcmp(bytes, "\x89TGPACK", 7) == 0) return load_aligned(to, bytes, size, err);
    return load_hlo(to, bytes, size, err);
}
