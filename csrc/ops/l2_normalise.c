/* y = x / max(|x|, eps) of every row. */
#include "ops/op.h"

typedef struct attrs {
    double eps;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    p->needs_in = 1;
    p->recompute = 1;
    p->pulls = 1;
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)to;
    c->work += (back ? 9.0 : 3.0) * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

static float eps_of(const tg_exec *e) { return (float)((const attrs *)e->attrs)->eps; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    e->k->unit_rows(t->rows, e->out.cols, tg_pull(e, t), eps_of(e), y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    const int add = e->into == NULL && e->dx_add[0];
    e->k->unit_rows_back(t->rows, e->out.cols, dy, tg_pull(e, t), eps_of(e), dx, add);
    tg_push(e, t, dx);
}

const tg_op tg_op_l2_normalise = {
    .name = "l2_normalise",
    .doc = "Every row divided by its length, or by eps if that is longer, as torch.nn.functional.normalize.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs = TG_ATTRS(TG_REAL(attrs, eps, 1e-12, 1e-30, 1e30, "smallest length to divide by")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
