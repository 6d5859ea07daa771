/* y = (x - mean) / sqrt(var + eps) [* weight + bias], mean and variance of each row over its columns (Ba et al. 2016).
   Backward makes them again: the rows it needs for that are in cache. */
#include "ops/op.h"

enum { WEIGHT, BIAS };

typedef struct attrs {
    double eps;
    int affine;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int cols = p->in[0].cols;
    (void)err;
    p->out = p->in[0];
    if (((const attrs *)p->attrs)->affine) {
        p->params[WEIGHT] = (tg_param_spec){NULL, cols, 0, TG_INIT_CONSTANT, 1.0f};
        p->params[BIAS] = (tg_param_spec){NULL, cols, 0, TG_INIT_CONSTANT, 0.0f};
    }
    p->needs_in = 1;
    p->recompute = 1;
    p->pulls = 1;
    return TG_OK;
}

typedef struct room {
    float *dw, *db; /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int n = e->out.cols;
    c->work += (back ? 16.0 : 7.0) * (double)tg_rows(e->slate, e->out.space) * n;
    if (!back) return;
    r->dw = tg_carve(c, TG_PARTIAL, n);
    r->db = tg_carve(c, TG_PARTIAL, n);
}

static float eps_of(const tg_exec *e) { return (float)((const attrs *)e->attrs)->eps; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    e->k->layer_norm(t->rows, e->out.cols, tg_pull(e, t), e->w[WEIGHT], e->w[BIAS], eps_of(e), y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    float *dx = tg_dx(e, t), *dw = tg_share_dw(e, t, r->dw, WEIGHT), *db = tg_share_dw(e, t, r->db, BIAS);
    const int add = e->into == NULL && e->dx_add[0];
    e->k->layer_norm_back(t->rows, n, dy, tg_pull(e, t), e->w[WEIGHT], eps_of(e), dx, add, dw, db);
    if (dx != NULL) tg_push(e, t, dx);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_dw(e, r->dw, WEIGHT);
    tg_sum_dw(e, r->db, BIAS);
}

const tg_op tg_op_layer_norm = {
    .name = "layer_norm",
    .doc = "Layer norm of every row (Ba et al. 2016), as torch.nn.LayerNorm.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias"},
    .attrs = TG_ATTRS(TG_REAL(attrs, eps, 1e-5, 0, 1, "added to the variance"),
                      TG_FLAG_ON(attrs, affine, "weight and bias per column")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = end_back}}),
};
