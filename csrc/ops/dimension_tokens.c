/* One token per dimension of the tensors of a node: y(rows, T W). Token t of a row is act(weight(W,F) f + bias(W)), where
   f(F) holds columns column + g step + t of x for g < groups, the features of a dimension, and with `number` t behind
   them. */
#include "features/schema.h"
#include "ops/act.h"

#include <string.h>

enum { WEIGHT, BIAS, SLOPE };
enum { BLOCK = 16 }; /* rows that are multiplied together: as many tokens as stay in cache */

typedef struct attrs {
    int tokens, cols, act, per_column, column, groups, step, number, init;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int last = a->column + (a->groups - 1) * a->step + a->tokens;
    if (last > p->in[0].cols)
        return tg_fail(err, TG_E_RECIPE, "reads columns %d..%d of x, which has %d", a->column, last - 1,
                       p->in[0].cols);
    p->out = (tg_shape){p->in[0].space, a->tokens * a->cols};
    tg_add_linear(p, WEIGHT, a->cols, a->groups + (a->number != 0), a->init);
    p->params[SLOPE] = tg_act_slope(a->cols, a->per_column);
    p->needs_in = 1;
    return TG_OK;
}

typedef struct room {
    int T, W, F;
    tg_act act;             /* of one token */
    float *packed, *turned; /* weight */
    float *f, *z, *dz, *df; /* of a thread: a block of features (T,F), sums (T,W) and their gradients */
    float *dbias, *dweight; /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r = (room){.T = a->tokens, .W = a->cols, .F = a->groups + (a->number != 0)};
    const int64_t M = (int64_t)BLOCK * r->T;
    c->work += (back ? 6.0 : 2.0) * (double)tg_rows(e->slate, e->out.space) * r->T * r->W * r->F;
    tg_act_carve(e, back, c, a->act, SLOPE, r->W, &r->act);
    r->packed = tg_carve(c, TG_SHARED, tg_packed(e->k, r->W, r->F));
    r->f = tg_carve(c, TG_SCRATCH, M * r->F);
    if (!back) return;
    r->turned = tg_carve(c, TG_SHARED, tg_packed(e->k, r->F, r->W));
    r->z = tg_carve(c, TG_SCRATCH, M * r->W);
    r->dz = tg_carve(c, TG_SCRATCH, M * r->W);
    r->df = tg_carve(c, TG_SCRATCH, M * r->F);
    r->dbias = tg_carve(c, TG_PARTIAL, r->W);
    r->dweight = tg_carve(c, TG_PARTIAL, (int64_t)r->W * r->F);
}

/* f(n T,F) of n rows, and z(n T,W) */
static void make(const tg_exec *e, const room *r, int64_t row, int n, float *f, float *z) {
    const attrs *a = e->attrs;
    const float *x = e->x[0] + row * e->in[0].cols + a->column;
    float *to = f;
    for (int i = 0; i < n; i++, x += e->in[0].cols)
        for (int t = 0; t < r->T; t++) {
            for (int g = 0; g < a->groups; g++) *to++ = x[g * a->step + t];
            if (a->number) *to++ = (float)t;
        }
    if (z != NULL) e->k->gemm(n * r->T, r->W, r->F, f, r->F, r->packed, z, r->W, e->w[BIAS], 0);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_begin(e, &r->act);
    tg_pack(e, 0, r->W, r->F, e->w[WEIGHT], r->F, r->packed);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    for (int at = 0; at < t->rows; at += BLOCK, y += (int64_t)BLOCK * e->out.cols) {
        const int n = t->rows - at < BLOCK ? t->rows - at : BLOCK;
        make(e, r, t->row + at, n, tg_of_thread(e, t, r->f), y);
        if (r->act.kind != TG_ACT_NONE) tg_act_forward(e, &r->act, n * r->T, y, y);
    }
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    begin(e);
    tg_pack(e, 1, r->F, r->W, e->w[WEIGHT], r->F, r->turned);
}

/* dx of n rows from df(n T,F) */
static void input_gradient(const tg_exec *e, const room *r, int64_t row, int n, const float *df) {
    const attrs *a = e->attrs;
    const int cols = e->in[0].cols;
    float *dx = e->dx[0] + row * cols;
    if (!e->dx_add[0]) memset(dx, 0, (size_t)n * (size_t)cols * sizeof *dx);
    for (int i = 0; i < n; i++, dx += cols)
        for (int t = 0; t < r->T; t++, df += r->F)
            for (int g = 0; g < a->groups; g++) dx[a->column + g * a->step + t] += df[g];
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int bent = r->act.kind != TG_ACT_NONE;
    float *f = tg_of_thread(e, t, r->f), *z = tg_of_thread(e, t, r->z), *df = tg_of_thread(e, t, r->df),
          *slopes = tg_act_share(e, t, &r->act), *dweight = tg_share_dw(e, t, r->dweight, WEIGHT),
          *dbias = tg_share_dw(e, t, r->dbias, BIAS);
    for (int at = 0; at < t->rows; at += BLOCK, dy += (int64_t)BLOCK * e->out.cols) {
        const int n = t->rows - at < BLOCK ? t->rows - at : BLOCK, M = n * r->T;
        const float *dz = dy;
        make(e, r, t->row + at, n, f, bent ? z : NULL);
        if (bent) {
            tg_act_backward(e, &r->act, M, dy, z, tg_of_thread(e, t, r->dz), slopes);
            dz = tg_of_thread(e, t, r->dz);
        }
        if (dweight != NULL) e->k->gemm_tn(M, r->W, r->F, dz, r->W, f, r->F, dweight, r->F);
        if (dbias != NULL) e->k->add_rows(M, r->W, dz, r->W, dbias);
        if (e->dx[0] == NULL) continue;
        e->k->gemm(M, r->F, r->W, dz, r->W, r->turned, df, r->F, NULL, 0);
        input_gradient(e, r, t->row + at, n, df);
    }
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_end(e, &r->act);
    tg_sum_dw(e, r->dweight, WEIGHT);
    tg_sum_dw(e, r->dbias, BIAS);
}

const tg_op tg_op_dimension_tokens = {
    .name = "dimension_tokens",
    .doc = "A token per dimension of every row: one linear layer over the features of each dimension (fifth "
           "place "
           "of the Kaggle competition).",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias", [SLOPE] = TG_ACT_PARAM},
    .attrs = TG_ATTRS(TG_INT(attrs, tokens, TG_LAYOUT_DIGITS, 1, TG_MOST_TOKENS, "dimensions"),
                      TG_INT(attrs, cols, 64, 1, 65536, "columns of a token"),
                      TG_ACT_ATTRS(attrs, TG_ACT_NONE, "activation"),
                      TG_INT(attrs, column, TG_SHAPE_COLUMN, 0, 65536, "column of x of dimension 0"),
                      TG_INT(attrs, groups, 1, 1, 4096, "features of a dimension"),
                      TG_INT(attrs, step, 8, 1, 65536, "columns from one of these features to the next"),
                      TG_FLAG(attrs, number, "the number of a dimension is its last feature"),
                      TG_CHOICE(attrs, init, 0, TG_LINEAR_INITS, TG_LINEAR_INITS_DOC)),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
