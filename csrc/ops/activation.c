/* y = act(x): the activations of TG_ACT_LIST, leaky ReLU with any slope, ELU with any scale, and PReLU, whose slope is
   learnt (He et al. 2015). */
#include "ops/op.h"

enum { SLOPE };
enum { PRELU = TG_ACTS };

typedef struct attrs {
    int act, per_column;
    double negative_slope, alpha, init;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    (void)err;
    p->out = p->in[0];
    if (a->act == PRELU)
        p->params[SLOPE] =
            (tg_param_spec){NULL, a->per_column ? p->in[0].cols : 1, 0, TG_INIT_CONSTANT, (float)a->init};
    p->needs_in = 1;
    p->recompute = 1;
    p->pulls = 1;
    p->inplace_in = 0;
    p->overwrites_in0 = 1;
    return TG_OK;
}

/* Whether it is a straight line above 0 and something with a factor below; the others are kernels of their own. */
static int bends(const attrs *a) { return a->act == PRELU || a->act == TG_ACT_LEAKY || a->act == TG_ACT_ELU; }

typedef struct room {
    float *factor;  /* (F) */
    float *sum;     /* (F), gradient of the factor, */
    float *dfactor; /* and of a chunk */
    float *d;       /* of a thread: a gradient to be added */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int n = e->out.cols;
    c->work += (back ? 24.0 : 12.0) * (double)tg_rows(e->slate, e->out.space) * n;
    if (bends(e->attrs)) r->factor = tg_carve(c, TG_SHARED, n);
    if (!back) return;
    if (((const attrs *)e->attrs)->act == PRELU) {
        r->sum = tg_carve(c, TG_SHARED, n);
        r->dfactor = tg_carve(c, TG_PARTIAL, n);
    }
    r->d = tg_carve(c, TG_SCRATCH, (int64_t)e->tile_rows * n);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    const double constant = a->act == TG_ACT_ELU ? a->alpha : a->negative_slope;
    for (int i = 0; r->factor != NULL && i < e->out.cols; i++)
        r->factor[i] = a->act == PRELU ? e->w[SLOPE][a->per_column ? i : 0] : (float)constant;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    const float *x = tg_pull(e, t);
    if (bends(a)) e->k->bend(t->rows, e->out.cols, a->act == TG_ACT_ELU, x, r->factor, y);
    else e->k->act((int64_t)t->rows * e->out.cols, a->act, x, y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    const int n = e->out.cols;
    const float *x = tg_pull(e, t);
    float *dx = tg_dx(e, t);
    const int add = e->into == NULL && e->dx_add[0];
    if (bends(a)) {
        float *df = e->dw[SLOPE] == NULL ? NULL : tg_share(e, t, r->dfactor, n, r->sum, 0);
        e->k->bend_back(t->rows, n, a->act == TG_ACT_ELU, dy, x, r->factor, dx, add, df);
    } else if (dx != NULL) {
        float *d = add ? tg_of_thread(e, t, r->d) : dx;
        e->k->act_grad((int64_t)t->rows * n, a->act, dy, x, d);
        if (add) e->k->add_rows(1, (int64_t)t->rows * n, d, 0, dx);
    }
    if (dx != NULL) tg_push(e, t, dx);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    if (e->dw[SLOPE] == NULL) return;
    tg_sum_shares(e, r->dfactor, n, r->sum, 0);
    if (((const attrs *)e->attrs)->per_column) {
        e->k->copy_rows(1, n, r->sum, 0, e->dw[SLOPE], 0, e->dw_add[SLOPE]);
        return;
    }
    double total = e->dw_add[SLOPE] ? (double)e->dw[SLOPE][0] : 0;
    for (int i = 0; i < n; i++) total += (double)r->sum[i];
    e->dw[SLOPE][0] = (float)total;
}

const tg_op tg_op_activation = {
    .name = "activation",
    .doc = "Activation of every element.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[SLOPE] = "slope"},
    .attrs = {TG_CHOICE(attrs, act, TG_ACT_RELU, TG_ACT_NAMES "|prelu",
                        "which; prelu has the parameter slope"),
              TG_REAL(attrs, negative_slope, 0.01, -1e6, 1e6, "leaky: slope below 0"),
              TG_REAL(attrs, alpha, 1, -1e6, 1e6, "elu: what is approached below 0, with the sign changed"),
              TG_REAL(attrs, init, 0.25, -1e6, 1e6, "prelu: initial slope below 0"),
              TG_FLAG(attrs, per_column, "prelu: a slope for every column, not one for all")},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .begin = begin, .backward = backward, .end = end_back}},
};
