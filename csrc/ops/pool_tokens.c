/* y(rows,W) = the mean or sum over the T tokens of every row of x(rows, T W). */
#include "ops/op.h"

enum { MEAN, SUM };

typedef struct attrs {
    int tokens, kind;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->in[0].cols % a->tokens != 0)
        return tg_fail(err, TG_E_RECIPE, "%d column%s cannot be cut into %d tokens", p->in[0].cols,
                       TG_S(p->in[0].cols), a->tokens);
    p->out = (tg_shape){p->in[0].space, p->in[0].cols / a->tokens};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)back, (void)to;
    c->work += 2.0 * (double)tg_rows(e->slate, e->out.space) * e->in[0].cols;
}

static float share_of(const attrs *a) { return a->kind == MEAN ? 1.0f / (float)a->tokens : 1.0f; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    e->k->mean_tokens(t->rows, a->tokens, e->out.cols, e->x[0] + t->row * e->in[0].cols, share_of(a), y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    if (e->dx[0] == NULL) return;
    e->k->lay_tokens(t->rows, a->tokens, e->out.cols, dy, share_of(a), e->dx[0] + t->row * e->in[0].cols,
                     e->dx_add[0]);
}

const tg_op tg_op_pool_tokens = {
    .name = "pool_tokens",
    .doc = "Mean or sum over the tokens of each row.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs = TG_ATTRS(TG_INT(attrs, tokens, 6, 1, 65536, "tokens of a row"),
                      TG_CHOICE(attrs, kind, MEAN, "mean|sum", "which of them")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
