/* y = scale * x * weight + bias per column, or with one weight and bias for all: a trainable scale of features, a bias,
   or a constant factor. Columns before `column` stay as they are. */
#include "ops/op.h"

#include <string.h>

enum { WEIGHT, BIAS };
enum { HAS_BIAS = 1, HAS_WEIGHT = 2 };

typedef struct attrs {
    int learn, column, per_column;
    double scale, init;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int set = 3 - a->learn; /* the choices count down: both, weight, bias, none */
    if (a->column >= p->in[0].cols)
        return tg_fail(err, TG_E_RECIPE, "column must be in 0..%d, got %d", p->in[0].cols - 1, a->column);
    const int size = a->per_column ? p->in[0].cols - a->column : 1;
    p->out = p->in[0];
    if (set & HAS_WEIGHT)
        p->params[WEIGHT] = (tg_param_spec){NULL, size, 0, TG_INIT_CONSTANT, (float)a->init};
    if (set & HAS_BIAS) p->params[BIAS] = (tg_param_spec){NULL, size, 0, TG_INIT_CONSTANT, 0.0f};
    p->needs_in = set & HAS_WEIGHT ? 1 : 0;
    p->recompute = 1;
    p->pulls = 1;
    p->inplace_in = 0;
    return TG_OK;
}

typedef struct room {
    float *factor, *scale, *offset; /* (F): scale * weight, scale, bias */
    float *weights, *biases;        /* backward (F): sums of scale * dy * x, of dy, */
    float *dw, *db;                 /* and of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int n = e->out.cols;
    c->work += (back ? 3.0 : 1.0) * (double)tg_rows(e->slate, e->out.space) * n;
    r->factor = tg_carve(c, TG_SHARED, n);
    r->scale = tg_carve(c, TG_SHARED, n);
    r->offset = tg_carve(c, TG_SHARED, n);
    if (!back) return;
    r->weights = tg_carve(c, TG_SHARED, n);
    r->biases = tg_carve(c, TG_SHARED, n);
    r->dw = tg_carve(c, TG_PARTIAL, n);
    r->db = tg_carve(c, TG_PARTIAL, n);
}

/* The entry of a parameter that column i has, from `column` on. */
static int entry(const attrs *a, int i) { return a->per_column ? i - a->column : 0; }

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    for (int i = 0; i < e->out.cols; i++) {
        const int as_it_is = i < a->column;
        r->scale[i] = as_it_is ? 1.0f : (float)a->scale;
        r->factor[i] =
            as_it_is || e->w[WEIGHT] == NULL ? r->scale[i] : r->scale[i] * e->w[WEIGHT][entry(a, i)];
        r->offset[i] = as_it_is || e->w[BIAS] == NULL ? 0.0f : e->w[BIAS][entry(a, i)];
    }
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const float *x = tg_pull(e, t);
    e->k->map_columns(t->rows, e->out.cols, x, NULL, r->factor, e->w[BIAS] == NULL ? NULL : r->offset, y, 0);
}

/* Sums first: dx may take the place of dy. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    float *db = e->dw[BIAS] == NULL ? NULL : tg_share(e, t, r->db, n, r->biases, 0);
    if (e->dw[WEIGHT] != NULL)
        e->k->sum_columns(t->rows, n, dy, tg_pull(e, t), NULL, r->scale, db,
                          tg_share(e, t, r->dw, n, r->weights, 0));
    else if (db != NULL) e->k->add_rows(t->rows, n, dy, n, db);
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    e->k->map_columns(t->rows, n, dy, NULL, r->factor, NULL, dx, e->into == NULL && e->dx_add[0]);
    tg_push(e, t, dx);
}

/* The gradient of parameter p out of the sums(F) of its columns, of which the chunks have `parts`. */
static void end_param(const tg_exec *e, int p, const float *parts, float *sums) {
    const attrs *a = e->attrs;
    float *dw = e->dw[p];
    if (dw == NULL) return;
    tg_sum_shares(e, parts, e->out.cols, sums, 0);
    if (!e->dw_add[p]) memset(dw, 0, (size_t)tg_dw_floats(e, p) * sizeof *dw);
    for (int i = a->column; i < e->out.cols; i++) dw[entry(a, i)] += sums[i];
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    end_param(e, WEIGHT, r->dw, r->weights);
    end_param(e, BIAS, r->db, r->biases);
}

const tg_op tg_op_affine = {
    .name = "affine",
    .doc = "scale * x * weight + bias, from a column on; those before stay as they are.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias"},
    .attrs = TG_ATTRS(TG_CHOICE(attrs, learn, 0, "weight+bias|weight|bias|none",
                                "the parameters; without a weight it is 1, without a bias 0"),
                      TG_INT(attrs, column, 0, 0, 65536, "first column that changes"),
                      TG_FLAG_ON(attrs, per_column, "a weight and a bias for every column, not one for all"),
                      TG_REAL(attrs, scale, 1, -1e30, 1e30, "constant factor"),
                      TG_REAL(attrs, init, 1, -1e30, 1e30, "initial weight")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin, .backward = backward, .end = end_back}}),
};
