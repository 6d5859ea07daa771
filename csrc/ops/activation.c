/* y = act(x): the activations of TG_ACT_LIST, leaky ReLU with any slope and ELU with any scale. */
#include "ops/act.h"

enum { SLOPE };

typedef struct attrs {
    int act, per_column;
    double negative_slope, alpha, init;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    (void)err;
    p->out = p->in[0];
    p->params[SLOPE] = tg_act_slope(p->in[0].cols, a->per_column);
    p->params[SLOPE].value = (float)a->init;
    p->needs_in = 1;
    p->recompute = 1;
    p->pulls = 1;
    p->inplace_in = 0;
    p->overwrites_in0 = 1;
    return TG_OK;
}

typedef struct room {
    tg_act act;
    float *factor; /* (F): of leaky ReLU and ELU below 0 */
    float *d;      /* of a thread: a gradient to be added */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    const int n = e->out.cols;
    c->work += (back ? 24.0 : 12.0) * (double)tg_rows(e->slate, e->out.space) * n;
    tg_act_carve(e, back, c, a->act, SLOPE, n, &r->act);
    if (a->act == TG_ACT_LEAKY || a->act == TG_ACT_ELU) r->factor = tg_carve(c, TG_SHARED, n);
    if (back) r->d = tg_carve(c, TG_SCRATCH, (int64_t)e->tile_rows * n);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    tg_act_begin(e, &r->act);
    for (int i = 0; r->factor != NULL && i < e->out.cols; i++)
        r->factor[i] = (float)(a->act == TG_ACT_ELU ? a->alpha : a->negative_slope);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const float *x = tg_pull(e, t);
    if (r->factor == NULL) tg_act_forward(e, &r->act, t->rows, x, y);
    else e->k->bend(t->rows, e->out.cols, r->act.kind == TG_ACT_ELU, x, r->factor, y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    const float *x = tg_pull(e, t);
    float *dx = tg_dx(e, t), *share = tg_act_share(e, t, &r->act);
    const int add = e->into == NULL && e->dx_add[0];
    if (r->factor != NULL) {
        e->k->bend_back(t->rows, n, r->act.kind == TG_ACT_ELU, dy, x, r->factor, dx, add, NULL);
    } else {
        float *d = add && dx != NULL ? tg_of_thread(e, t, r->d) : dx;
        tg_act_backward(e, &r->act, t->rows, dy, x, d, share);
        if (d != dx) e->k->add_rows(1, (int64_t)t->rows * n, d, 0, dx);
    }
    if (dx != NULL) tg_push(e, t, dx);
}

static void end_back(const tg_exec *e) { tg_act_end(e, &((const room *)e->room)->act); }

const tg_op tg_op_activation = {
    .name = "activation",
    .doc = "Activation of every element.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[SLOPE] = TG_ACT_PARAM},
    .attrs = TG_ATTRS(
        TG_ACT_ATTRS(attrs, TG_ACT_RELU, "which"),
        TG_REAL(attrs, negative_slope, 0.01, -1e6, 1e6, "leaky: slope below 0"),
        TG_REAL(attrs, alpha, 1, -1e6, 1e6, "elu: what is approached below 0, with the sign changed"),
        TG_REAL(attrs, init, 0.25, -1e6, 1e6, "prelu: initial slope below 0")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin, .backward = backward, .end = end_back}}),
};
