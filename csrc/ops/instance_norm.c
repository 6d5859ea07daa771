/* y = (x - mean) / std per config and channel over the nodes, eps 1e-5, no affine (Ulyanov et al. 2016).
   The statistics come from the producer of x. Fused forms: `norm` of sage and mix. */
#include "ops/op.h"

#include <string.h>

static tg_status plan(tg_op_plan *p, tg_error *err) {
    if (p->in[0].space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "the input must have one row per node and config");
    p->out = p->in[0];
    p->needs_in = 1;
    p->needs_stats = 1;
    p->recompute = 1;
    return TG_OK;
}

static int64_t floats(const tg_exec *e) { return (int64_t)e->slate->C * e->in[0].cols; }

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    *shared = back ? (loop.chunks + 1) * 2 * floats(e) : 0;
    *scratch = 0;
}

static void forward_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const int64_t n = floats(e);
    (void)context, (void)chunk, (void)scratch;
    for (int64_t i = begin; i < end; i++)
        e->k->normalize(e->slate->C, e->in[0].cols, e->x[0] + i * n, e->x_stats, e->x_stats + n, e->y + i * n,
                        e->in[0].cols);
}

static void forward(const tg_exec *e) {
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    tg_run_chunks(e, loop, 2.0 * (double)loop.items * (double)floats(e), forward_chunk, NULL);
}

/* dx = rstd (dy - mean dy - xh mean(dy xh)), means over nodes: sums first, then the correction */
static void backward_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const int64_t n = floats(e);
    float *sums = (float *)context + (chunk + 1) * 2 * n;
    (void)scratch;
    memset(sums, 0, 2 * (size_t)n * sizeof *sums);
    for (int64_t i = begin; i < end; i++)
        e->k->norm_back(n, e->dy + i * n, e->x[0] + i * n, e->x_stats, e->x_stats + n, sums, sums + n,
                        e->dx[0] + i * n, e->dx_add[0]);
}

static void backward(const tg_exec *e) {
    if (e->dx[0] == NULL) return;
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    const int64_t n = 2 * floats(e);
    const double flops = 4.0 * (double)loop.items * (double)n;
    tg_run_chunks(e, loop, flops, backward_chunk, e->shared);
    tg_sum_partials(loop.chunks, n, e->shared + n, n, e->shared, 0);
    tg_norm_finish(e, e->shared);
}

const tg_op tg_op_instance_norm = {
    .name = "instance_norm",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{NULL, 0, NULL, 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
