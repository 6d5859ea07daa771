/* Sizes in the published node features, as further columns (third place of the Kaggle competition).
   They are read as stored, whatever earlier steps made of them. */
#include "features/further.h"
#include "features/opcodes.h"
#include "features/schema.h"
#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

static void outline_more(const tg_use *use, tg_outline *outline, int more) {
    int *cols = &outline->cols[TG_TABLE_NODE];
    if (!outline->changed[TG_TABLE_NODE]) *cols = use->node_features;
    if (*cols >= 0) *cols += more;
    outline->changed[TG_TABLE_NODE] = 1;
}

/* Whether node n is a virtual one that was made before pruning. */
static int is_virtual(const tg_draft *d, int64_t n) {
    return (d->nodes == NULL ? n : d->nodes[n]) >= d->from->N;
}

/* The table with `more` columns behind it, which are 0; NULL when there is no memory. */
static float *wider(const tg_draft *d, int more, tg_error *err) {
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const int cols = x->cols + more;
    float *y = tg_draft_room(d->N, cols, err);
    if (y != NULL) tg_features_copy(x, y, cols);
    for (int64_t n = 0; y != NULL && n < d->N; n++)
        memset(y + n * cols + x->cols, 0, (size_t)more * sizeof *y);
    return y;
}

static tg_status widen(tg_draft *d, tg_status status, float *y, int more) {
    const tg_features *x = &d->table[TG_TABLE_NODE];
    return tg_draft_replace(d, TG_TABLE_NODE, status, y, x->cols + more, 0);
}

/* ---- mod-features ---- */

/* Sizes of the shape; dimensions, sizes of the window; its strides; its low padding. */
static const struct {
    int from, to;
} sizes[] = {{21, 27}, {31, 43}, {53, 59}, {61, 67}};
enum { VIRTUAL };
enum { SIZES = 30, LANE = 128 }; /* columns; numbers in a row of a vector register of a TPU */

static void outline_mod(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline_more(use, outline, 2 * SIZES);
}

static tg_status apply_mod(const tg_use *use, tg_draft *d, tg_error *err) {
    static const float nothing[TG_NODE_FEATURES];
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    float *y = wider(d, 2 * SIZES, err);
    if (y == NULL) return err->code;
    const int cols = d->table[TG_TABLE_NODE].cols;
    for (int64_t n = 0; n < d->N; n++) {
        const float *x = use->attr[VIRTUAL] != 0 && is_virtual(d, n) ? nothing : tg_draft_stored(d, n);
        float *to = y + n * (cols + 2 * SIZES) + cols;
        for (size_t i = 0; x != NULL && i < sizeof sizes / sizeof *sizes; i++)
            for (int f = sizes[i].from; f < sizes[i].to; f++, to++) {
                const double shifted = (double)x[f] + LANE - 1;
                to[0] = (float)((shifted - LANE * floor(shifted / LANE)) / LANE);
                to[SIZES] = (float)(floor((double)x[f] / LANE) / 10);
            }
    }
    return widen(d, TG_OK, y, 2 * SIZES);
}

const tg_prepare_step tg_step_mod_features = {
    .name = "mod-features",
    .doc = "Append for 30 columns of sizes (21-26, 31-42, 53-58, 61-66) the place within 128, "
           "((x + 127) mod 128) / 128, then for all of them the number of whole 128s, floor(x / 128) / 10.",
    .attrs = TG_ATTRS(
        TG_ROW("virtual", TG_ATTR_FLAG, 0, 0, 0, 1, NULL,
               "a virtual node, if it was made before pruning, has them too, with x = 0; else it has 0")),
    .flags = TG_STEP_CHANGES,
    .inspect = tg_step_published,
    .outline = outline_mod,
    .apply = apply_mod,
};

/* ---- dimension-flags ---- */

/* The numbers of dimensions of a convolution: batch, features, up to four in space of input, kernel and output. */
enum { FIRST_NUMBER = 93, NUMBERS = 14, DIMENSIONS = TG_LAYOUT_DIGITS, FLAGS = NUMBERS * DIMENSIONS };

static void outline_flags(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline_more(use, outline, FLAGS);
}

static tg_status apply_flags(const tg_use *use, tg_draft *d, tg_error *err) {
    (void)use;
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    float *y = wider(d, FLAGS, err);
    if (y == NULL) return err->code;
    const int cols = d->table[TG_TABLE_NODE].cols;
    for (int64_t n = 0; n < d->N; n++) {
        const float *x = tg_draft_stored(d, n);
        float *to = y + n * (cols + FLAGS) + cols;
        for (int i = 0; x != NULL && i < NUMBERS; i++)
            for (int dimension = 1; dimension < DIMENSIONS; dimension++)
                if (x[FIRST_NUMBER + i] == (float)dimension) to[i * DIMENSIONS + dimension] = 1;
    }
    return widen(d, TG_OK, y, FLAGS);
}

const tg_prepare_step tg_step_dimension_flags = {
    .name = "dimension-flags",
    .doc =
        "Append for 14 columns of numbers of dimensions of convolutions (93-106) six columns each: 1 where "
        "the number is 0 .. 5. A stored 0 may also mean that there is none, and counts as none (fifth place "
        "of the Kaggle competition).",
    .flags = TG_STEP_CHANGES,
    .inspect = tg_step_published,
    .outline = outline_flags,
    .apply = apply_flags,
};

/* ---- operand-shapes ---- */

enum { OPERANDS = 2, EACH = 8 }; /* columns of a shape, its sum and product with it */
enum { MISSING = -1, OTHER_OPCODE = -2, OFFSET = 3 };

static void outline_operands(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline_more(use, outline, OPERANDS * EACH);
}

static tg_status inspect_operands(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    const tg_status status = tg_step_published(use, graph, tables, err);
    if (status != TG_OK || graph->opcode != NULL || !(tables & 1u << TG_TABLE_NODE)) return status;
    return tg_fail_field(err, "node_opcode", "opcodes, to know what is a convolution or dot", "none");
}

/* operand (N, 2): the first two operands of the stored nodes, in the order of their edges; -1: fewer. */
static void find_operands(const tg_draft *d, int32_t *operand) {
    memset(operand, -1, (size_t)(OPERANDS * d->from->N) * sizeof *operand);
    for (int64_t e = 0; e < d->from->E; e++) {
        int32_t *of = operand + OPERANDS * d->copied[2 * e];
        const int32_t v = (int32_t)d->copied[2 * e + 1];
        if (of[0] < 0) of[0] = v;
        else if (of[1] < 0) of[1] = v;
    }
}

static void operand_shapes(const tg_stored *s, int64_t id, const int32_t *operand, float *to) {
    const int known = s->opcode[id] == TG_OPCODE_CONVOLUTION || s->opcode[id] == TG_OPCODE_DOT;
    for (int i = 0; i < OPERANDS; i++) {
        const int32_t from = operand[OPERANDS * id + i];
        const float *shape = from < 0 ? NULL : s->node_feat + from * s->F + TG_SHAPE_COLUMN;
        for (int f = 0; f < EACH; f++) {
            const float value = !known ? OTHER_OPCODE : shape == NULL ? MISSING : shape[f];
            *to++ = tg_step_log(value, OFFSET);
        }
    }
}

static tg_status apply_operands(const tg_use *use, tg_draft *d, tg_error *err) {
    enum { MORE = OPERANDS * EACH };
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    tg_status status = tg_draft_whole(d, err); /* operands may have gone with pruning */
    if (status != TG_OK) return status;
    const int64_t N = d->from->N, cols = d->table[TG_TABLE_NODE].cols;
    int32_t *operand = malloc((size_t)(OPERANDS * N + 1) * sizeof *operand);
    float *y = operand == NULL ? NULL : wider(d, MORE, err);
    if (operand == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)N);
    else if (y == NULL) status = err->code;
    if (status == TG_OK) {
        find_operands(d, operand);
        for (int64_t n = 0; n < d->N; n++) {
            const int64_t id = d->nodes == NULL ? n : d->nodes[n];
            float *to = y + n * (cols + MORE) + cols;
            if (id >= 0 && id < N) operand_shapes(d->from, id, operand, to);
            for (int f = 0; use->attr[VIRTUAL] != 0 && is_virtual(d, n) && f < MORE; f++)
                to[f] = tg_step_log(MISSING, OFFSET);
        }
    }
    free(operand);
    return widen(d, status, y, MORE);
}

const tg_prepare_step tg_step_operand_shapes = {
    .name = "operand-shapes",
    .doc =
        "Append for convolutions and dots the shapes of operands 0 and 1 (their columns 21-28), ln(x + 3); a "
        "missing operand has -1 in place of x, other nodes -2.",
    .attrs = TG_ATTRS(
        TG_ROW("virtual", TG_ATTR_FLAG, 0, 0, 0, 1, NULL,
               "a virtual node, if it was made before pruning, has x = -1 in all of them; else it has 0")),
    .flags = TG_STEP_CHANGES,
    .inspect = inspect_operands,
    .outline = outline_operands,
    .apply = apply_operands,
};

/* ---- program-columns ---- */

enum { FIRST_GATHER = TG_GATHER_SLICE_SIZES + 1, END_GATHER = TG_GATHER_SLICE_SIZES + 5, GATHER_OFFSET = 2 };

static tg_status plan_program(tg_use *use, const tg_outline *before, tg_error *err) {
    if (before->changed[TG_TABLE_NODE])
        return tg_step_wrong(use, err, "to come before every step that changes the node features");
    return TG_OK;
}

static void outline_program(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline_more(use, outline, 0);
}

/* to(TG_EXTRA_FEATURES) from the row that is stored; the published code takes no logarithm of the first size. */
static void program_row(const float *x, float *to) {
    for (int f = 0; f < TG_EXTRA_FEATURES; f++)
        to[f] = f >= TG_OPERAND_SHAPES                ? tg_step_log(x[f], OFFSET)
                : f >= FIRST_GATHER && f < END_GATHER ? tg_step_log(x[f], GATHER_OFFSET)
                                                      : x[f];
}

static tg_status apply_program(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    float *y = wider(d, 0, err), none[TG_EXTRA_FEATURES];
    if (y == NULL) return err->code;
    for (int f = 0; f < TG_EXTRA_FEATURES; f++) none[f] = MISSING;
    none[TG_HAS_DYNAMIC_COM] = d->from->node_feat[TG_NODE_FEATURES + TG_HAS_DYNAMIC_COM];
    for (int64_t n = 0; n < d->N; n++) {
        const float *x = tg_draft_stored(d, n);
        if (x == NULL && !is_virtual(d, n)) continue;
        program_row(x == NULL ? none : x + TG_NODE_FEATURES, y + n * use->node_features + TG_NODE_FEATURES);
    }
    return widen(d, TG_OK, y, 0);
}

const tg_prepare_step tg_step_program_columns = {
    .name = "program-columns",
    .doc =
        "Take the 46 columns behind the published ones of graphs that were read with extra=True: of sizes of "
        "gathers but the first (144-147) ln(x + 2), of shapes of operands (170-185) ln(x + 3), others as "
        "they "
        "are. A virtual node that was made before pruning has x = -1 (third place of the Kaggle "
        "competition).",
    .flags = TG_STEP_CHANGES | TG_STEP_FURTHER,
    .plan = plan_program,
    .inspect = tg_step_published,
    .outline = outline_program,
    .apply = apply_program,
};
