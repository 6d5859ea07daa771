/* y = (x - mean) / std per config and channel over the nodes, eps 1e-5, no affine (Ulyanov et al. 2016).
   The statistics come from the producer of x. Fused forms: `norm` of sage and mix. */
#include "ops/op.h"

#include <string.h>

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    p->needs_in = 1;
    p->needs_stats = 1;
    p->recompute = 1;
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)to;
    c->work += (back ? 8 : 2) * (double)tg_rows(e->slate, e->out.space) * e->in[0].cols;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    tg_normalize(e, t, 0, t->rows, tg_pull(e, t), y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    if (e->dx[0] != NULL) tg_norm_tile(e, t, 0, t->rows, dy, tg_pull(e, t));
}

const tg_op tg_op_instance_norm = {
    .name = "instance_norm",
    .doc = "Instance norm over the nodes of a config (Ulyanov et al. 2016), eps 1e-5, no affine.",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .flags = TG_PER_GRAPH,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
