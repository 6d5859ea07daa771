/* Virtual nodes: nodes without features that join others which are far from each other. */
#include "features/schema.h"
#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

enum { OVER, SIZE };
enum { ROOTS, CLUSTERS };

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    if (before->has_loops) return tg_step_wrong(use, err, "to come before the step that adds loops");
    if (before->learnt[TG_TABLE_NODE] || (use->attr[OVER] == ROOTS && before->changed[TG_TABLE_NODE]))
        return tg_step_wrong(use, err, "to come before every step that changes the node features");
    return TG_OK;
}

static tg_status inspect(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    return use->attr[OVER] == ROOTS ? tg_step_published(use, graph, tables, err) : TG_OK;
}

static int is_root(const tg_draft *d, int64_t n) {
    const tg_features *x = &d->table[TG_TABLE_NODE];
    return x->x[n * x->ld] == 1;
}

/* Appends the edges of the `more` new nodes behind E edges; returns how many there are then. */
static int64_t connect(const tg_use *use, const tg_draft *d, int64_t *edges, int64_t E) {
    for (int64_t n = 0; n < d->N; n++) {
        if (use->attr[OVER] == ROOTS && !is_root(d, n)) continue;
        edges[2 * E] = d->N + (use->attr[OVER] == ROOTS ? 0 : n / (int64_t)use->attr[SIZE]);
        edges[2 * E++ + 1] = n;
    }
    return E;
}

/* Features and opcodes of the `more` new nodes: zeros. They have no layout. */
static tg_status append(tg_draft *d, int64_t more, tg_error *err) {
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const int cols = x->cols;
    if (d->opcode != NULL) {
        uint8_t *opcode = realloc(d->opcode, (size_t)(d->N + more));
        if (opcode == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)d->N);
        d->opcode = opcode;
        memset(opcode + d->N, 0, (size_t)more);
    }
    if (d->layout != NULL) {
        int8_t *layout = realloc(d->layout, (size_t)((d->N + more) * TG_LAYOUT_DIGITS));
        if (layout == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)d->N);
        d->layout = layout;
        memset(layout + d->N * TG_LAYOUT_DIGITS, -2, (size_t)(more * TG_LAYOUT_DIGITS));
    }
    float *y = tg_draft_room(d->N + more, cols, err);
    if (y == NULL) return err->code;
    tg_features_copy(x, y, cols);
    memset(y + d->N * cols, 0, (size_t)(more * cols) * sizeof *y);
    d->table[TG_TABLE_NODE].rows = d->N + more;
    return tg_draft_replace(d, TG_TABLE_NODE, TG_OK, y, cols, x->finite);
}

/* Append `more` nodes and edges to the graph before pruning. */
static void grow_whole(const tg_use *use, tg_draft *d, int64_t more, int64_t *block) {
    memcpy(block, d->copied, (size_t)(2 * d->E) * sizeof *block);
    d->whole_E = connect(use, d, block, d->E);
    d->whole_N += more;
    memcpy(block + 2 * d->whole_E, d->config_nodes, (size_t)d->K * sizeof *block);
    free(d->copied);
    d->edges = d->copied = block;
    d->config_nodes = block + 2 * d->whole_E;
    d->E = d->whole_E;
}

/* What pruning kept grows. */
static void grow_pruned(const tg_use *use, tg_draft *d, int64_t more, int64_t *block) {
    int64_t *nodes = block + 2 * (d->E + d->N);
    memcpy(nodes, d->nodes, (size_t)d->N * sizeof *nodes);
    for (int64_t n = 0; n < more; n++) nodes[d->N + n] = -1;
    if (d->E > 0) memcpy(block, d->edges, (size_t)(2 * d->E) * sizeof *block);
    d->E = connect(use, d, block, d->E);
    free(d->grown);
    d->edges = d->grown = block;
    d->nodes = nodes;
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const int64_t size = (int64_t)use->attr[SIZE];
    const int64_t more = use->attr[OVER] == ROOTS ? 1 : (d->N + size - 1) / size;
    tg_status status = d->nodes == NULL ? tg_draft_whole(d, err) : TG_OK;
    if (status != TG_OK) return status;
    if (d->N + more >= INT32_MAX || d->E + d->N >= INT32_MAX)
        return tg_fail(err, TG_E_DATA, "too large a graph for virtual nodes: %lld nodes", (long long)d->N);
    /* edges, at most one more per node; then config nodes, or ids of the nodes */
    const int64_t behind = d->nodes == NULL ? d->K : d->N + more;
    int64_t *block = malloc((size_t)(2 * (d->E + d->N) + behind + 1) * sizeof *block);
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld edges", (long long)d->E);
    (d->nodes == NULL ? grow_whole : grow_pruned)(use, d, more, block);
    status = append(d, more, err);
    d->N += more;
    return status;
}

const tg_prepare_step tg_step_virtual_node = {
    .name = "virtual-node",
    .doc = "Append nodes that consume the outputs of others: without features, opcode and layout, all of "
           "them 0 (a "
           "layout that earlier steps have made: -2).",
    .attrs = TG_ATTRS(
        TG_ROW("over", TG_ATTR_CHOICE, 0, ROOTS, 0, 0, "roots|clusters",
               "one node over the roots of all computations, those with 1 in column 0 (third place of the "
               "Kaggle competition); or one over each run of `size` nodes, in their order (fifth place)"),
        TG_ROW("size", TG_ATTR_INT, 0, 10000, 1, 1e9, NULL, "nodes of a cluster; the last may have fewer")),
    .flags = TG_STEP_SELECTS,
    .plan = plan,
    .inspect = inspect,
    .apply = apply,
};
