/* y(rows,O) = act(x(rows,F) w(O,F)^T + b(O)) */
#include "ops/op.h"

#include <string.h>

enum { OUT, ACT, STATS, INIT };
enum { TILE = 64 }; /* rows worked on while they are in cache */

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int O = (int)p->attr[OUT], F = p->in[0].cols;
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    p->out = (tg_shape){p->in[0].space, O};
    p->makes_stats = (int)p->attr[STATS];
    if (p->makes_stats && p->out.space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "stats needs an input with one row per node and config");
    tg_add_linear(p, "weight", "bias", O, F, (int)p->attr[INIT] == 1);
    p->needs_in = 1;
    return TG_OK;
}

static int64_t item_floats(const tg_exec *e) {
    return (int64_t)tg_per_item(e->slate, e->out.space) * e->out.cols;
}

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    const int F = e->in[0].cols, O = e->out.cols;
    tg_loop loop = tg_loop_over(e->slate, e->out.space);
    int64_t rows = loop.per > TILE ? loop.per : TILE;
    *shared = tg_packed(e->k, O, F);
    if (!back) *shared += e->y_stats == NULL ? 0 : loop.chunks * tg_stats_floats(item_floats(e));
    else *shared += tg_packed(e->k, F, O) + loop.chunks * ((int64_t)O * F + O);
    *scratch = back ? 2 * rows * O : 0;
}

typedef struct context {
    float *packed, *packed_t, *partials;
    tg_loop loop;
} context;

static int64_t tile_items(const context *c) { return c->loop.per >= TILE ? 1 : TILE / c->loop.per; }

static void forward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const context *c = context_;
    const int F = e->in[0].cols, O = e->out.cols;
    const int64_t per = c->loop.per, n = item_floats(e), step = tile_items(c);
    (void)scratch;
    for (int64_t i = begin; i < end; i += step) {
        int64_t items = i + step < end ? step : end - i;
        float *y = e->y + i * n;
        e->k->gemm((int)(items * per), O, F, e->x[0] + i * per * F, F, c->packed, y, O, e->w[1], 0);
        if ((int)e->attr[ACT] != TG_ACT_NONE) e->k->act(items * n, (int)e->attr[ACT], y, y);
        for (int64_t j = 0; e->y_stats != NULL && j < items; j++)
            tg_stats_tile(e->k, c->partials + chunk * tg_stats_floats(n), n, y + j * n, i + j == begin);
    }
}

static void forward(const tg_exec *e) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = {.packed = e->shared, .loop = tg_loop_over(e->slate, e->out.space)};
    c.partials = c.packed + tg_packed(e->k, O, F);
    e->k->pack_nt(O, F, e->w[0], F, c.packed);
    tg_run_chunks(e, c.loop, 2.0 * (double)tg_rows(e->slate, e->out.space) * F * O, forward_chunk, &c);
    if (e->y_stats != NULL) tg_stats_finish(c.loop, item_floats(e), c.partials, e->y_stats);
}

/* dz = dy act'(z) with z recomputed; dw(O,F) += dz^T x; db += sum dz; dx = dz w */
static void backward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const context *c = context_;
    const int F = e->in[0].cols, O = e->out.cols, act = (int)e->attr[ACT];
    const int64_t per = c->loop.per, n = item_floats(e), step = tile_items(c);
    float *dw = c->partials + chunk * ((int64_t)O * F + O), *db = dw + (int64_t)O * F;
    memset(dw, 0, ((size_t)O * F + O) * sizeof *dw);
    for (int64_t i = begin; i < end; i += step) {
        const int rows = (int)((i + step < end ? step : end - i) * per);
        const float *x = e->x[0] + i * per * F, *dz = e->dy + i * n;
        if (act != TG_ACT_NONE) {
            float *z = scratch + (int64_t)rows * O;
            e->k->gemm(rows, O, F, x, F, c->packed, z, O, e->w[1], 0);
            e->k->act_grad((int64_t)rows * O, act, dz, z, scratch);
            dz = scratch;
        }
        e->k->gemm_tn(rows, O, F, dz, O, x, F, dw, F);
        e->k->add_rows(rows, O, dz, O, db);
        if (e->dx[0] != NULL)
            e->k->gemm(rows, F, O, dz, O, c->packed_t, e->dx[0] + i * per * F, F, NULL, e->dx_add[0]);
    }
}

static void backward(const tg_exec *e) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = {.packed = e->shared, .loop = tg_loop_over(e->slate, e->out.space)};
    const int64_t stride = (int64_t)O * F + O;
    c.packed_t = c.packed + tg_packed(e->k, O, F);
    c.partials = c.packed_t + tg_packed(e->k, F, O);
    if ((int)e->attr[ACT] != TG_ACT_NONE) e->k->pack_nt(O, F, e->w[0], F, c.packed);
    if (e->dx[0] != NULL) e->k->pack_nn(F, O, e->w[0], F, c.packed_t);
    tg_run_chunks(e, c.loop, 4.0 * (double)tg_rows(e->slate, e->out.space) * F * O, backward_chunk, &c);
    tg_sum_partials(c.loop.chunks, (int64_t)O * F, c.partials, stride, e->dw[0], e->dw_add[0]);
    tg_sum_partials(c.loop.chunks, O, c.partials + (int64_t)O * F, stride, e->dw[1], e->dw_add[1]);
}

const tg_op tg_op_linear = {
    .name = "linear",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{"out", 1, NULL, 0},
              {"act", TG_ACT_NONE, "none|relu|gelu", 0},
              {"stats", 0, NULL, 0},
              {"init", 0, "default|xavier", 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
