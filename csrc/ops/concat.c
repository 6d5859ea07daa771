/* y = 2 to 4 inputs next to each other; inputs without configs, or without nodes, are repeated (broadcast.h). */
#include "ops/broadcast.h"

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int64_t cols = 0;
    for (int i = 0; i < p->n_in; i++) cols += p->in[i].cols;
    const tg_status status = tg_join_inputs(p, &p->out.space, err);
    p->out.cols = (int)cols;
    p->pulls = p->out.space == p->in[0].space;
    return status;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    for (int i = 0; i < e->n_in; y += e->in[i++].cols) tg_spread(e, t, i, y, e->out.cols, 0);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    dy += e->out.cols;
    for (int i = e->n_in - 1; i >= 0; i--) {
        dy -= e->in[i].cols;
        tg_gather(e, t, i, dy, e->out.cols);
    }
}

const tg_op tg_op_concat = {
    .name = "concat",
    .doc = "2 to 4 inputs next to each other; those with a row per node alone, per config alone, or a single "
           "row, are repeated.",
    .inputs = {{"x", TG_IN_ANY, 0}, {"y", TG_IN_ANY, 0}, {"z", TG_IN_ANY, 1}, {"u", TG_IN_ANY, 1}},
    .plan = plan,
    .carve = tg_carve_joined,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = tg_gather_end}}),
};
