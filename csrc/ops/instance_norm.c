/* y = (x - mean) / std per config and channel over the nodes, eps 1e-5, no affine (Ulyanov et al. 2016).
   The statistics come from the producer of x. Fused forms: `norm` of sage and mix. */
#include "ops/op.h"

#include <string.h>

static tg_status plan(tg_op_plan *p, tg_error *err) {
    if (!tg_has_nodes(p->in[0].space)) return tg_fail(err, TG_E_RECIPE, "the input must have rows of nodes");
    p->out = p->in[0];
    p->needs_in = 1;
    p->needs_stats = 1;
    p->recompute = 1;
    return TG_OK;
}

static tg_sizes sizes(const tg_exec *e, int back) {
    const double elements = (double)tg_rows(e->slate, e->out.space) * e->in[0].cols;
    return (tg_sizes){0, back ? tg_norm_floats(e) : 0, 0, (back ? 8 : 2) * elements};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    tg_normalize(e, t, 0, t->rows, tg_pull(e, t), y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    float *sums = tg_partial(e, t);
    if (e->dx[0] == NULL) return;
    if (t->first) memset(sums, 0, (size_t)tg_norm_floats(e) * sizeof *sums);
    tg_norm_tile(e, t, 0, t->rows, dy, tg_pull(e, t), sums);
}

static void end(const tg_exec *e, int back) {
    if (back) tg_norm_end(e, 0);
}

const tg_op tg_op_instance_norm = {
    .name = "instance_norm",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{NULL, 0, NULL, 0}},
    .plan = plan,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .end = end,
};
