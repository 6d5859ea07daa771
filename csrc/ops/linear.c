/* y(rows,O) = act(x(rows,F) w(O,F)^T + b(O)) */
#include "ops/op.h"

enum { OUT, ACT, STATS, INIT };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int O = (int)p->attr[OUT], F = p->in[0].cols;
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    p->out = (tg_shape){p->in[0].space, O};
    p->makes_stats = (int)p->attr[STATS];
    if (p->makes_stats && p->out.space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "stats needs an input with one row per node and config");
    tg_add_linear(p, "weight", "bias", O, F, (int)p->attr[INIT] == 1);
    p->needs_in = 1;
    p->pulls = 1;
    return TG_OK;
}

/* Shared: packed weight, and for backward the transposed one. Partial of backward: dw, db. */
static tg_sizes sizes(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols;
    const double product = 2.0 * (double)tg_rows(e->slate, e->out.space) * F * O;
    if (!back) return (tg_sizes){tg_packed(e->k, O, F), tg_stats_floats(e), 0, product};
    return (tg_sizes){tg_packed(e->k, O, F) + tg_packed(e->k, F, O), (int64_t)O * F + O,
                      (int)e->attr[ACT] == TG_ACT_NONE ? 0 : 2 * (int64_t)e->tile_rows * O, 2 * product};
}

static float *transposed(const tg_exec *e) { return e->shared + tg_packed(e->k, e->out.cols, e->in[0].cols); }

static void begin(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols;
    if (!back || (int)e->attr[ACT] != TG_ACT_NONE) tg_pack(e, 0, O, F, e->w[0], F, e->shared);
    if (back) tg_pack(e, 1, F, O, e->w[0], F, transposed(e));
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, O = e->out.cols, act = (int)e->attr[ACT];
    e->k->gemm(t->rows, O, F, tg_pull(e, t), F, e->shared, y, O, e->w[1], 0);
    if (act != TG_ACT_NONE) e->k->act((int64_t)t->rows * O, act, y, y);
    tg_stats_tile(e, t, y);
}

/* dz = dy act'(z) with z recomputed; dw(O,F) += dz^T x; db += sum dz; dx = dz w */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, O = e->out.cols, act = (int)e->attr[ACT];
    const float *x = tg_pull(e, t), *dz = tg_dy(e, t, dy);
    const int64_t size = (int64_t)O * F;
    float *dw = tg_share(e, t, 0, size, e->dw[0], e->dw_add[0]);
    float *db = tg_share(e, t, size, O, e->dw[1], e->dw_add[1]), *dx = tg_dx(e, t);
    if (act != TG_ACT_NONE) {
        float *d = tg_scratch(e, t), *z = d + (int64_t)t->rows * O;
        e->k->gemm(t->rows, O, F, x, F, e->shared, z, O, e->w[1], 0);
        e->k->act_grad((int64_t)t->rows * O, act, dz, z, d);
        dz = d;
    }
    e->k->gemm_tn(t->rows, O, F, dz, O, x, F, dw, F);
    e->k->add_rows(t->rows, O, dz, O, db);
    if (dx == NULL) return;
    e->k->gemm(t->rows, F, O, dz, O, transposed(e), dx, F, NULL, e->into == NULL && e->dx_add[0]);
    tg_push(e, t, dx);
}

static void end(const tg_exec *e, int back) {
    const int64_t size = (int64_t)e->out.cols * e->in[0].cols;
    if (!back) {
        tg_stats_end(e);
        return;
    }
    tg_sum_shares(e, 0, size, e->dw[0]);
    tg_sum_shares(e, size, e->out.cols, e->dw[1]);
}

const tg_op tg_op_linear = {
    .name = "linear",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .fixes_dy = TG_FIXED_IN_TILES,
    .attrs = {{"out", 1, NULL, 0},
              {"act", TG_ACT_NONE, "none|relu|gelu", 0},
              {"stats", 0, NULL, 0},
              {"init", 0, "default|xavier", 0}},
    .plan = plan,
    .sizes = sizes,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .end = end,
};
