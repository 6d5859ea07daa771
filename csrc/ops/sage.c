/* SAGEConv with mean aggregation (Hamilton et al. 2017; PyG's defaults):
   y(O) of node i = w_l(O,F) mean over senders j of x_j + b_l + w_r(O,F) x_i, per config.
   With `norm`, x is instance-normalised on the way in: the mean of normalised rows is the normalised mean. */
#include "ops/op.h"

#include <string.h>

enum { OUT, DIRECTION, NORM, STATS };
enum { TILE = 48 }; /* rows: nodes with few configs are worked on several at a time */

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int O = (int)p->attr[OUT], F = p->in[0].cols;
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    if (p->in[0].space == TG_SPACE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "the input must have rows of nodes");
    p->out = (tg_shape){p->in[0].space, O};
    p->needs_stats = (int)p->attr[NORM];
    p->makes_stats = (int)p->attr[STATS];
    if ((p->needs_stats || p->makes_stats) && p->out.space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "norm and stats need an input with one row per node and config");
    tg_add_linear(p, "weight_l", "bias_l", O, F, 0);
    p->params[p->n_params++] = tg_weight("weight_r", O, F, F);
    p->needs_in = 1;
    return TG_OK;
}

typedef struct context {
    float *packed_l, *packed_r; /* forward: B(F -> O) of w_l, w_r; backward: B(O -> F) */
    float *partials;            /* per chunk; see partial_floats */
    int64_t stride;
    float *sums; /* backward with norm: s1, s2 (2, C, F) */
    tg_loop loop;
    int step; /* nodes per tile */
} context;

static int64_t partial_floats(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols;
    const int64_t per = tg_per_item(e->slate, e->out.space);
    if (!back) return e->y_stats == NULL ? 0 : tg_stats_floats(per * O);
    return 2 * (int64_t)O * F + O + (e->x_stats == NULL ? 0 : 2 * per * F);
}

static context make_context(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = {.packed_l = e->shared,
                 .stride = partial_floats(e, back),
                 .loop = tg_loop_over(e->slate, e->out.space)};
    const int64_t packed = back ? tg_packed(e->k, F, O) : tg_packed(e->k, O, F);
    c.packed_r = c.packed_l + packed;
    c.sums = c.packed_r + packed;
    c.partials = c.sums + (back && e->x_stats != NULL ? 2 * (int64_t)c.loop.per * F : 0);
    c.step = c.loop.per >= TILE ? 1 : TILE / c.loop.per;
    return c;
}

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = make_context(e, back);
    int64_t rows = (int64_t)c.step * c.loop.per;
    *shared = (c.partials - e->shared) + c.loop.chunks * c.stride;
    *scratch =
        back ? rows * (2 * O + 2 * F) + (int64_t)c.loop.per * O : rows * 2 * F + (int64_t)c.loop.per * F;
}

/* Rows of one node, normalised if the op does that, into columns of a tile `width` wide. */
static void place(const tg_exec *e, int per, int F, const float *x, const float *stats, float *tile,
                  int64_t width) {
    e->k->normalize(per, F, x, stats, stats == NULL ? NULL : stats + (int64_t)per * F, tile, width);
}

static void forward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const context *c = context_;
    const int F = e->in[0].cols, O = e->out.cols, per = c->loop.per;
    const int64_t n = (int64_t)per * F;
    const tg_csr *senders = e->slate->senders[(int)e->attr[DIRECTION]];
    float *tile = scratch,
          *row = scratch + (int64_t)c->step * per * 2 * F; /* tile: [mean of senders | own] */
    for (int64_t i = begin; i < end; i += c->step) {
        const int nodes = (int)(i + c->step < end ? c->step : end - i);
        int any = 0;
        for (int j = 0; j < nodes; j++) {
            const int32_t v = (int32_t)(i + j), degree = senders->ptr[v + 1] - senders->ptr[v];
            float *at = tile + (int64_t)j * per * 2 * F;
            place(e, per, F, e->x[0] + v * n, e->x_stats, at + F, 2 * F);
            e->k->mean_of(degree, senders->idx + senders->ptr[v], NULL, e->x[0], n, n, row);
            /* without senders the mean is 0, also of normalised rows */
            place(e, per, F, row, degree > 0 ? e->x_stats : NULL, at, 2 * F);
            any |= degree > 0;
        }
        float *y = e->y + i * per * O;
        e->k->gemm(nodes * per, O, F, tile + F, 2 * F, c->packed_r, y, O, e->w[1], 0);
        if (any) e->k->gemm(nodes * per, O, F, tile, 2 * F, c->packed_l, y, O, NULL, 1);
        for (int j = 0; e->y_stats != NULL && j < nodes; j++)
            tg_stats_tile(e->k, c->partials + chunk * c->stride, (int64_t)per * O, y + (int64_t)j * per * O,
                          i + j == begin);
    }
}

static void forward(const tg_exec *e) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = make_context(e, 0);
    e->k->pack_nt(O, F, e->w[0], F, c.packed_l);
    e->k->pack_nt(O, F, e->w[2], F, c.packed_r);
    tg_run_chunks(e, c.loop, 4.0 * (double)tg_rows(e->slate, e->out.space) * F * O, forward_chunk, &c);
    if (e->y_stats != NULL) tg_stats_finish(c.loop, (int64_t)c.loop.per * O, c.partials, e->y_stats);
}

/* With m_j = sum over receivers i of dy_i / degree_i:  dxh_j = w_l^T m_j + w_r^T dy_j,
   dw_l = sum_j m_j^T xh_j, dw_r = sum_j dy_j^T xh_j, db_l = sum_j dy_j. */
static void backward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const context *c = context_;
    const int F = e->in[0].cols, O = e->out.cols, per = c->loop.per;
    const int64_t n = (int64_t)per * F, m = (int64_t)per * O, rows = (int64_t)c->step * per;
    const int direction = (int)e->attr[DIRECTION];
    const tg_csr *receivers = e->slate->receivers[direction];
    float *tile = scratch, *xh = tile + rows * 2 * O, *dxh = xh + rows * F, *row = dxh + rows * F;
    float *dw = c->partials + chunk * c->stride, *db = dw + 2 * (int64_t)O * F, *s1 = db + O, *s2 = s1 + n;
    memset(dw, 0, (size_t)c->stride * sizeof *dw);
    for (int64_t i = begin; i < end; i += c->step) {
        const int nodes = (int)(i + c->step < end ? c->step : end - i);
        int any = 0;
        for (int j = 0; j < nodes; j++) {
            const int32_t v = (int32_t)(i + j), degree = receivers->ptr[v + 1] - receivers->ptr[v];
            float *at = tile + (int64_t)j * per * 2 * O;
            e->k->mean_of(degree, receivers->idx + receivers->ptr[v], e->slate->inv_degree[direction], e->dy,
                          m, m, row);
            place(e, per, O, row, NULL, at, 2 * O);
            place(e, per, O, e->dy + v * m, NULL, at + O, 2 * O);
            place(e, per, F, e->x[0] + v * n, e->x_stats, xh + j * n, F);
            any |= degree > 0;
        }
        const int skip = any ? 0 : O, used = nodes * per;
        e->k->add_rows(used, O, tile + O, 2 * O, db);
        e->k->gemm_tn(used, 2 * O - skip, F, tile + skip, 2 * O, xh, F, dw + (int64_t)skip * F, F);
        if (e->dx[0] == NULL) continue;
        float *dx = e->dx[0] + i * n, *to = e->x_stats == NULL ? dx : dxh;
        e->k->gemm(used, F, O, tile + O, 2 * O, c->packed_r, to, F, NULL, e->x_stats == NULL && e->dx_add[0]);
        if (any) e->k->gemm(used, F, O, tile, 2 * O, c->packed_l, to, F, NULL, 1);
        for (int j = 0; e->x_stats != NULL && j < nodes; j++)
            e->k->norm_back(n, dxh + j * n, e->x[0] + (i + j) * n, e->x_stats, e->x_stats + n, s1, s2,
                            dx + j * n, e->dx_add[0]);
    }
}

static void backward(const tg_exec *e) {
    const int F = e->in[0].cols, O = e->out.cols;
    context c = make_context(e, 1);
    const double rows = (double)tg_rows(e->slate, e->out.space);
    const int64_t size = (int64_t)O * F;
    e->k->pack_nn(F, O, e->w[0], F, c.packed_l);
    e->k->pack_nn(F, O, e->w[2], F, c.packed_r);
    tg_run_chunks(e, c.loop, 8.0 * rows * F * O, backward_chunk, &c);
    tg_sum_partials(c.loop.chunks, size, c.partials, c.stride, e->dw[0], e->dw_add[0]);
    tg_sum_partials(c.loop.chunks, size, c.partials + size, c.stride, e->dw[2], e->dw_add[2]);
    tg_sum_partials(c.loop.chunks, O, c.partials + 2 * size, c.stride, e->dw[1], e->dw_add[1]);
    if (e->x_stats == NULL || e->dx[0] == NULL) return;
    tg_sum_partials(c.loop.chunks, 2 * (int64_t)c.loop.per * F, c.partials + 2 * size + O, c.stride, c.sums,
                    0);
    tg_norm_finish(e, c.sums);
}

const tg_op tg_op_sage = {
    .name = "sage",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{"out", 1, NULL, 0},
              {"direction", TG_FORWARD, "forward|reverse|both", 0},
              {"norm", 0, NULL, 0},
              {"stats", 0, NULL, 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
