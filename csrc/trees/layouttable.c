#include "trees/layouttable.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "configs/distinct.h"
#include "features/layout.h"
#include "features/opcodes.h"
#include "features/schema.h"
#include "graph/prune.h"

enum {
    KINDS = 3,
    PAIRINGS = 2,
    SIZES = 14
}; /* SIZES: bins 0, 1, 2..3, 4..7, ...; the last has 4096 and all above */
enum { SPECIFICS = 93, MOST_SPECIFICS = 14 };  /* columns that say which dimension of a convolution is what */
static const double lanes = 128, sublanes = 8; /* what the two minor dimensions are padded to */

struct tg_layout_table {
    int64_t K, bins, pairs[PAIRINGS];
    uint64_t *hash;           /* (K): of the shape, and of what dimensions of a convolution are */
    double *shape, *elements; /* (K, 6), (K) */
    int64_t *pair[PAIRINGS];  /* (pairs, 2): places u, v of nodes; u consumes what v makes */
    int8_t *own, *kind;       /* (K, 6): layout in the features; (K): which opcode, or -1 */
};

int64_t tg_layout_table_width(int64_t bins) { return KINDS * bins + 2 * PAIRINGS + 2 * SIZES + 2; }

void tg_layout_table_free(tg_layout_table *t) {
    if (t == NULL) return;
    free(t->hash);
    free(t->shape);
    free(t->elements);
    free(t->own);
    free(t->kind);
    for (int i = 0; i < PAIRINGS; i++) free(t->pair[i]);
    free(t);
}

/* ---- what is the same for all configs ---- */

static uint64_t hashed(uint64_t value, int64_t x) {
    return tg_mix64(value + UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)x);
}

static int64_t whole(float x) { return fabsf(x) < 0x1p63f ? (int64_t)x : INT64_MIN; }

static void take_node(tg_layout_table *t, int64_t k, const float *feat, int opcode) {
    const int convolution = opcode == TG_OPCODE_CONVOLUTION;
    uint64_t value = 0;
    double elements = 1;
    for (int i = 0; i < TG_LAYOUT_DIGITS; i++) {
        const float size = feat[TG_SHAPE_COLUMN + i];
        value = hashed(value, whole(size));
        t->shape[k * TG_LAYOUT_DIGITS + i] = (double)size;
        if (size > 0) elements *= (double)size;
    }
    for (int i = 0; i < MOST_SPECIFICS; i++)
        value = hashed(value, convolution ? whole(feat[SPECIFICS + i]) : 0);
    t->hash[k] = value;
    t->elements[k] = elements;
    t->kind[k] = convolution ? 0 : opcode == TG_OPCODE_DOT ? 1 : opcode == TG_OPCODE_RESHAPE ? 2 : -1;
}

static tg_status take_nodes(tg_layout_table *t, const tg_layout_graph *g, tg_error *err) {
    const size_t K = (size_t)g->K;
    t->hash = malloc(K * sizeof *t->hash + 1);
    t->shape = malloc(K * TG_LAYOUT_DIGITS * sizeof *t->shape + 1);
    t->elements = malloc(K * sizeof *t->elements + 1);
    t->own = malloc(K * TG_LAYOUT_DIGITS + 1);
    t->kind = malloc(K + 1);
    if (t->hash == NULL || t->shape == NULL || t->elements == NULL || t->own == NULL || t->kind == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)g->K);
    for (int64_t k = 0; k < g->K; k++) {
        const float *feat = g->node_feat + g->config_nodes[k] * TG_NODE_FEATURES;
        const tg_status status =
            tg_layout_digits(t->own + k * TG_LAYOUT_DIGITS, feat, TG_NODE_FEATURES, 1, -1, -1, err);
        if (status != TG_OK) return status;
        take_node(t, k, feat, g->node_opcode == NULL ? 0 : g->node_opcode[g->config_nodes[k]]);
    }
    return TG_OK;
}

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The different pairs of places that edges(n, 2) join; place[node] is -1 of those that cannot be configured. */
static tg_status take_pairs(tg_layout_table *t, int pairing, const int64_t *edges, int64_t n,
                            const int64_t *place, tg_error *err) {
    int64_t *pair = malloc((size_t)n * 2 * sizeof *pair + 1), found = 0, kept = 0;
    if (pair == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld edges", (long long)n);
    for (int64_t e = 0; e < n; e++) {
        const int64_t u = place[edges[2 * e]], v = place[edges[2 * e + 1]];
        if (u >= 0 && v >= 0 && u != v) pair[found++] = u * t->K + v;
    }
    qsort(pair, (size_t)found, sizeof *pair, by_value);
    for (int64_t i = 0; i < found; i++)
        if (i == 0 || pair[i] != pair[kept - 1]) pair[kept++] = pair[i];
    for (int64_t i = kept - 1; i >= 0; i--) {
        const int64_t u = pair[i] / t->K, v = pair[i] % t->K;
        pair[2 * i] = u, pair[2 * i + 1] = v;
    }
    t->pair[pairing] = pair;
    t->pairs[pairing] = kept;
    return TG_OK;
}

/* place(N) = number of each node in config_nodes(K), -1 of others */
static int64_t *places(int64_t N, const int64_t *config_nodes, int64_t K) {
    int64_t *place = malloc((size_t)N * sizeof *place + 1);
    for (int64_t i = 0; place != NULL && i < N; i++) place[i] = -1;
    for (int64_t k = 0; place != NULL && k < K; k++) place[config_nodes[k]] = k;
    return place;
}

/* Of neighbours, and of nodes joined by a path past other nodes. */
static tg_status take_edges(tg_layout_table *t, const tg_layout_graph *g, tg_error *err) {
    const tg_prune_input in = {
        .N = g->N, .E = g->E, .K = g->K, .edge_index = g->edges, .config_nodes = g->config_nodes, .hops = 1};
    tg_pruned pruned = {.N = 0};
    tg_status status = tg_prune(&pruned, "meta", &in, err);
    if (status != TG_OK) return status;
    int64_t *old = places(g->N, g->config_nodes, g->K),
            *new = places(pruned.N, pruned.config_nodes, pruned.K);
    if (old == NULL || new == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)g->N);
    if (status == TG_OK) status = take_pairs(t, 0, g->edges, g->E, old, err);
    if (status == TG_OK) status = take_pairs(t, 1, pruned.edge_index, pruned.E, new, err);
    free(old);
    free(new);
    tg_pruned_free(&pruned);
    return status;
}

tg_status tg_layout_table_open(tg_layout_table **table, const tg_layout_graph *g, int64_t bins,
                               tg_error *err) {
    tg_layout_table *t = *table = calloc(1, sizeof *t);
    if (t == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a table");
    t->K = g->K, t->bins = bins;
    tg_status status = take_edges(t, g, err); /* which checks the indices of nodes */
    if (status == TG_OK) status = take_nodes(t, g, err);
    if (status == TG_OK) return TG_OK;
    tg_layout_table_free(t);
    *table = NULL;
    return status;
}

/* ---- rows ---- */

static int given(const int8_t *layout) {
    for (int i = 0; i < TG_LAYOUT_DIGITS; i++)
        if (layout[i] >= 0) return 1;
    return 0;
}

static int same(const int8_t *a, const int8_t *b) { return memcmp(a, b, TG_LAYOUT_DIGITS) == 0; }

/* How often each type of each opcode occurs: to(KINDS, bins). */
static void add_types(const tg_layout_table *t, const int8_t *digits, float *to) {
    for (int64_t k = 0; k < t->K; k++) {
        if (t->kind[k] < 0) continue;
        uint64_t value = 0;
        for (int i = 0; i < TG_DIGITS; i++) value = hashed(value, digits[k * TG_DIGITS + i]);
        to[t->kind[k] * t->bins + (int64_t)(tg_mix64(t->hash[k] + value) % (uint64_t)t->bins)] += 1;
    }
}

/* Copies that pairs of layouts imply, and the elements copied: to(2). */
static void add_copies(const tg_layout_table *t, int pairing, const int8_t *digits, float *to) {
    int64_t copies = 0;
    double elements = 0;
    for (int64_t i = 0; i < t->pairs[pairing]; i++) {
        const int64_t *pair = t->pair[pairing] + 2 * i;
        const int8_t *made = digits + pair[1] * TG_DIGITS,
                     *input = digits + pair[0] * TG_DIGITS + TG_LAYOUT_DIGITS,
                     *kernel = input + TG_LAYOUT_DIGITS;
        if (!given(made) || !(given(input) || given(kernel)) || same(made, input) || same(made, kernel))
            continue;
        copies++;
        elements += t->elements[pair[1]];
    }
    to[0] = (float)copies;
    to[1] = (float)log1p(elements);
}

static double padded(double size, double multiple) {
    return size > 0 ? ceil(size / multiple) * multiple / fmax(size, 1) : 1;
}

static int bin_of(double size) {
    int exponent;
    frexp(size, &exponent);
    return exponent < SIZES - 1 ? (exponent > 0 ? exponent : 0) : SIZES - 1;
}

/* Bins of minor and second minor sizes; what padding adds, and its share: to(2 * SIZES + 2). */
static void add_sizes(const tg_layout_table *t, const int8_t *digits, float *to) {
    double added = 0, all = 0;
    for (int64_t k = 0; k < t->K; k++) {
        const int8_t *layout = digits + k * TG_DIGITS;
        if (!given(layout)) layout = t->own + k * TG_LAYOUT_DIGITS;
        const double *shape = t->shape + k * TG_LAYOUT_DIGITS;
        const double minor = layout[0] >= 0 ? shape[layout[0]] : 0,
                     second = layout[1] >= 0 ? shape[layout[1]] : 0;
        const double elements = t->elements[k] * padded(minor, lanes) * padded(second, sublanes);
        added += elements - t->elements[k];
        all += elements;
        to[bin_of(minor)] += 1;
        to[SIZES + bin_of(second)] += 1;
    }
    to[2 * SIZES] = (float)log1p(added);
    to[2 * SIZES + 1] = (float)(added / fmax(all, 1));
}

void tg_layout_table_rows(const tg_layout_table *t, const int8_t *digits, int64_t n, float *rows) {
    const int64_t width = tg_layout_table_width(t->bins), cells = t->K * TG_DIGITS;
    const double work = (double)(width + 8 * cells + 32 * (t->pairs[0] + t->pairs[1]));
#pragma omp parallel for schedule(static) num_threads(tg_threads((double)n *work))
    for (int64_t i = 0; i < n; i++) {
        float *row = rows + i * width, *copies = row + KINDS * t->bins;
        memset(row, 0, (size_t)width * sizeof *row);
        add_types(t, digits + i * cells, row);
        for (int pairing = 0; pairing < PAIRINGS; pairing++)
            add_copies(t, pairing, digits + i * cells, copies + 2 * pairing);
        add_sizes(t, digits + i * cells, copies + 2 * PAIRINGS);
    }
}

/* ---- how often layouts occur ---- */

/* Memory of tg_layout_rates. */
typedef struct shares {
    uint8_t *column; /* (C, width): cells of a node */
    int64_t *first, *number,
        *copies;                /* (C): rows of distinct cells, which one each is, how often it occurs */
    double *logs, *sum, *least; /* (C) */
} shares;

static tg_status add_node(const shares *s, int64_t C, int64_t width, tg_error *err) {
    int64_t distinct;
    const tg_status status = tg_rows_dedup(s->first, s->number, &distinct, s->column, C, width, err);
    if (status != TG_OK) return status;
    memset(s->copies, 0, (size_t)distinct * sizeof *s->copies);
    for (int64_t c = 0; c < C; c++) s->copies[s->number[c]]++;
    for (int64_t c = 0; c < C; c++) {
        const double share = (double)s->copies[s->number[c]] / (double)C;
        s->logs[c] += log(share);
        s->sum[c] += share;
        if (share < s->least[c]) s->least[c] = share;
    }
    return TG_OK;
}

tg_status tg_layout_rates(float *rates, const uint8_t *cells, int64_t C, int64_t K, int64_t width,
                          tg_error *err) {
    const size_t n = (size_t)C + 1;
    shares s = {malloc(n * (size_t)width),    malloc(n * sizeof *s.first), malloc(n * sizeof *s.number),
                malloc(n * sizeof *s.copies), calloc(n, sizeof *s.logs),   calloc(n, sizeof *s.sum),
                malloc(n * sizeof *s.least)};
    tg_status status = TG_OK;
    if (s.column == NULL || s.first == NULL || s.number == NULL || s.copies == NULL || s.logs == NULL ||
        s.sum == NULL || s.least == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for the layouts of %lld configs", (long long)C);
    for (int64_t c = 0; status == TG_OK && c < C; c++) s.least[c] = 1;
    for (int64_t k = 0; status == TG_OK && k < K; k++) {
        for (int64_t c = 0; c < C; c++)
            memcpy(s.column + c * width, cells + (c * K + k) * width, (size_t)width);
        status = add_node(&s, C, width, err);
    }
    const double nodes = K > 1 ? (double)K : 1;
    for (int64_t c = 0; status == TG_OK && c < C; c++) {
        rates[3 * c] = (float)(s.logs[c] / nodes);
        rates[3 * c + 1] = (float)(s.sum[c] / nodes);
        rates[3 * c + 2] = (float)s.least[c];
    }
    free(s.column), free(s.first), free(s.number), free(s.copies), free(s.logs), free(s.sum), free(s.least);
    return status;
}
