/* y = sum of 2 to 4 inputs of as many columns; inputs without configs, or without nodes, are repeated (broadcast.h). */
#include "ops/broadcast.h"

static tg_status plan(tg_op_plan *p, tg_error *err) {
    for (int i = 1; i < p->n_in; i++)
        if (p->in[i].cols != p->in[0].cols)
            return tg_fail(err, TG_E_RECIPE, "inputs of %d and %d columns cannot be added", p->in[0].cols,
                           p->in[i].cols);
    p->out.cols = p->in[0].cols;
    tg_status status = tg_join_inputs(p, &p->out.space, err);
    p->pulls = p->out.space == p->in[0].space;
    for (int i = p->n_in - 1; i >= 0; i--)
        if (p->in[i].space == p->out.space) p->inplace_in = i;
    return status;
}

typedef struct room {
    int alike;                /* no input is repeated */
    float *places[TG_JOINED]; /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    r->alike = 1;
    for (int i = 0; i < e->n_in; i++) r->alike &= e->in[i].space == e->out.space;
    c->work += (double)e->n_in * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
    if (back) tg_carve_joined(e, c, r->places);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const int n = e->out.cols;
    if (!r->alike) {
        for (int i = 0; i < e->n_in; i++) tg_spread(e, t, i, y, n, i > 0);
        return;
    }
    const float *x[TG_JOINED] = {tg_pull(e, t)};
    for (int i = 1; i < e->n_in; i++) x[i] = e->x[i] + t->row * n;
    e->k->add_arrays((int64_t)t->rows * n, e->n_in, x, y);
}

/* From the last input on: of a slot that is there twice, the gradient of the first place is added. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    for (int i = e->n_in - 1; i >= 0; i--) tg_gather(e, t, i, dy, e->out.cols, r->places[i]);
}

static void end_back(const tg_exec *e) { tg_gather_end(e, ((const room *)e->room)->places); }

const tg_op tg_op_add = {
    .name = "add",
    .doc = "Sum of 2 to 4 inputs; those with a row per node alone, per config alone, or a single row, are "
           "repeated.",
    .inputs = {{"x", TG_IN_ANY, 0}, {"y", TG_IN_ANY, 0}, {"z", TG_IN_ANY, 1}, {"u", TG_IN_ANY, 1}},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .backward = backward, .end = end_back}},
};
