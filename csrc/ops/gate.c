/* s x + (1 - s) z with s = sigmoid(a), or s x without z, which callers know as the input "y"; inputs without configs,
   or without nodes, are repeated (broadcast.h). */
#include "ops/broadcast.h"

enum { A, X, Z, INPUTS };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    for (int i = X; i < p->n_in; i++)
        if (p->in[i].cols != p->in[A].cols)
            return tg_fail(err, TG_E_RECIPE, "a has %d column%s, %s has %d", p->in[A].cols,
                           TG_S(p->in[A].cols), i == X ? "x" : "y", p->in[i].cols);
    p->out.cols = p->in[A].cols;
    p->needs_in = (1u << p->n_in) - 1;
    return tg_join_inputs(p, &p->out.space, err);
}

typedef struct room {
    tg_joined joined;
    float *x[INPUTS], *d[INPUTS]; /* of a thread, a tile: inputs that are repeated; gradients */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int64_t n = (int64_t)e->tile_rows * e->out.cols;
    tg_carve_joined(e, back, c, to);
    c->work += (back ? 24.0 : 12.0) * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
    for (int i = 0; i < e->n_in; i++) {
        if (e->in[i].space != e->out.space) r->x[i] = tg_carve(c, TG_SCRATCH, n);
        if (back) r->d[i] = tg_carve(c, TG_SCRATCH, n);
    }
}

/* The tile's rows of every input, repeated; of a missing one NULL. */
static void rows_of(const tg_exec *e, const tg_tile *t, const float *x[INPUTS]) {
    const room *r = (const room *)e->room;
    for (int i = 0; i < INPUTS; i++) {
        if (i < e->n_in && r->x[i] != NULL) {
            float *repeated = tg_of_thread(e, t, r->x[i]);
            tg_spread(e, t, i, repeated, e->out.cols, 0);
            x[i] = repeated;
        } else {
            x[i] = i < e->n_in ? e->x[i] + t->row * e->out.cols : NULL;
        }
    }
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const float *x[INPUTS];
    rows_of(e, t, x);
    e->k->blend_by((int64_t)t->rows * e->out.cols, x[A], x[X], x[Z], y);
}

/* Gradients are written where they belong, those that are added or summed to scratch. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    const float *x[INPUTS];
    float *d[INPUTS] = {NULL};
    rows_of(e, t, x);
    for (int i = 0; i < e->n_in; i++) {
        const int whole = e->in[i].space == e->out.space && e->dx[i] != NULL && !e->dx_add[i];
        d[i] = whole ? e->dx[i] + t->row * n : tg_of_thread(e, t, r->d[i]);
    }
    e->k->blend_by_back((int64_t)t->rows * n, dy, x[A], x[X], x[Z], d[A], d[X], d[Z]);
    for (int i = e->n_in - 1; i >= 0; i--) tg_gather(e, t, i, d[i], n);
}

const tg_op tg_op_gate = {
    .name = "gate",
    .doc = "sigmoid(a) * x + (1 - sigmoid(a)) * y; without y the gated linear unit (Dauphin et al. 2017). "
           "Inputs with a row per node alone, per config alone, or a single row, are repeated.",
    .inputs = {{"a", TG_IN_ANY, 0}, {"x", TG_IN_ANY, 0}, {"y", TG_IN_ANY, 1}},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = tg_gather_end}}),
};
