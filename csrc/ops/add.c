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

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int n = e->out.cols;
    int repeated = 0;
    for (int i = 0; i < e->n_in; i++) repeated |= e->in[i].space != e->out.space;
    if (repeated) {
        for (int i = 0; i < e->n_in; i++) tg_spread(e, t, i, y, n, i > 0);
        return;
    }
    const float *x[TG_JOINED] = {tg_pull(e, t)};
    for (int i = 1; i < e->n_in; i++) x[i] = e->x[i] + t->row * n;
    e->k->add_arrays((int64_t)t->rows * n, e->n_in, x, y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    for (int i = e->n_in - 1; i >= 0; i--) tg_gather(e, t, i, dy, e->out.cols);
}

const tg_op tg_op_add = {
    .name = "add",
    .doc = "Sum of 2 to 4 inputs; those with a row per node alone, per config alone, or a single row, are "
           "repeated.",
    .inputs = {{"x", TG_IN_ANY, 0}, {"y", TG_IN_ANY, 0}, {"z", TG_IN_ANY, 1}, {"u", TG_IN_ANY, 1}},
    .plan = plan,
    .carve = tg_carve_joined,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = tg_gather_end}}),
};
