/* y = scale * x * weight + bias per column: a trainable scale of features, a bias, or a constant factor, of all columns
   or of the last ones. */
#include "ops/op.h"

enum { WEIGHT, BIAS };
enum { HAS_BIAS = 1, HAS_WEIGHT = 2 };

typedef struct attrs {
    int learn, column;
    double scale;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int set = 3 - a->learn; /* the choices count down: both, weight, bias, none */
    if (a->column >= p->in[0].cols)
        return tg_fail(err, TG_E_RECIPE, "column must be in 0..%d, got %d", p->in[0].cols - 1, a->column);
    p->out = p->in[0];
    if (set & HAS_WEIGHT) p->params[WEIGHT] = (tg_param_spec){NULL, p->in[0].cols, 0, TG_INIT_CONSTANT, 1.0f};
    if (set & HAS_BIAS) p->params[BIAS] = (tg_param_spec){NULL, p->in[0].cols, 0, TG_INIT_CONSTANT, 0.0f};
    p->needs_in = set & HAS_WEIGHT ? 1 : 0;
    p->recompute = 1;
    p->pulls = 1;
    p->inplace_in = 0;
    return TG_OK;
}

typedef struct room {
    float *factor, *scale; /* (F): scale * weight, scale */
    float *dw, *db;        /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int n = e->out.cols;
    c->work += (back ? 3.0 : 1.0) * (double)tg_rows(e->slate, e->out.space) * n;
    r->factor = tg_carve(c, TG_SHARED, n);
    r->scale = tg_carve(c, TG_SHARED, n);
    if (!back) return;
    r->dw = tg_carve(c, TG_PARTIAL, n);
    r->db = tg_carve(c, TG_PARTIAL, n);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    for (int i = 0; i < e->out.cols; i++) {
        r->scale[i] = i < a->column ? 1.0f : (float)a->scale;
        r->factor[i] = e->w[WEIGHT] == NULL ? r->scale[i] : r->scale[i] * e->w[WEIGHT][i];
    }
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const float *x = tg_pull(e, t);
    e->k->map_columns(t->rows, e->out.cols, x, NULL, r->factor, e->w[BIAS], y, 0);
}

/* Sums first: dx may take the place of dy. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    float *dw = tg_share_dw(e, t, r->dw, WEIGHT), *db = tg_share_dw(e, t, r->db, BIAS);
    if (dw != NULL) e->k->sum_columns(t->rows, n, dy, tg_pull(e, t), NULL, r->scale, db, dw);
    else if (db != NULL) e->k->add_rows(t->rows, n, dy, n, db);
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    e->k->map_columns(t->rows, n, dy, NULL, r->factor, NULL, dx, e->into == NULL && e->dx_add[0]);
    tg_push(e, t, dx);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_dw(e, r->dw, WEIGHT);
    tg_sum_dw(e, r->db, BIAS);
}

const tg_op tg_op_affine = {
    .name = "affine",
    .doc = "scale * x * weight + bias per column.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias"},
    .attrs = {TG_CHOICE(attrs, learn, 0, "weight+bias|weight|bias|none",
                        "the parameters; without a weight it is 1, without a bias 0"),
              TG_INT(attrs, column, 0, 0, 65536, "first column with the constant factor"),
              TG_REAL(attrs, scale, 1, -1e30, 1e30, "constant factor")},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .begin = begin, .backward = backward, .end = end_back}},
};
