/* y(rows,H) = x(rows,H,O) . att(H,O): per head the product of its columns with a vector, as GAT scores nodes. */
#include "ops/op.h"

enum { ATT };

typedef struct attrs {
    int heads;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int heads = ((const attrs *)p->attrs)->heads, wide = p->in[0].cols;
    if (wide % heads != 0)
        return tg_fail(err, TG_E_RECIPE, "%d column%s of x cannot be cut into %d heads", wide, TG_S(wide),
                       heads);
    const int cols = wide / heads;
    p->out = (tg_shape){p->in[0].space, heads};
    p->params[ATT] = tg_glorot(heads, cols);
    p->needs_in = 1;
    return TG_OK;
}

typedef struct room {
    int cols;    /* of a head */
    float *datt; /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int wide = e->in[0].cols;
    r->cols = wide / e->out.cols;
    c->work += (back ? 4.0 : 2.0) * (double)tg_rows(e->slate, e->out.space) * wide;
    if (back) r->datt = tg_carve(c, TG_PARTIAL, wide);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    e->k->head_dots(t->rows, e->out.cols, r->cols, e->x[0] + t->row * e->in[0].cols, e->w[ATT], y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int64_t at = t->row * e->in[0].cols;
    e->k->head_dots_back(t->rows, e->out.cols, r->cols, dy, e->x[0] + at, e->w[ATT],
                         e->dx[0] == NULL ? NULL : e->dx[0] + at, e->dx_add[0],
                         tg_share_dw(e, t, r->datt, ATT));
}

static void end_back(const tg_exec *e) { tg_sum_dw(e, ((const room *)e->room)->datt, ATT); }

const tg_op tg_op_head_dots = {
    .name = "head_dots",
    .doc = "Per head, the dot product of its columns with a vector: the scores of GAT's nodes.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[ATT] = "att"},
    .attrs = TG_ATTRS(TG_INT(attrs, heads, 1, 1, 4096, "heads, side by side in the columns")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = end_back}}),
};
