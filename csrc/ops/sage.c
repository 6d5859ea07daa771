/* SAGEConv with mean aggregation (Hamilton et al. 2017; PyG's defaults):
   y(O) of node i = w_l(O,F) mean over senders j of x_j + b_l + w_r(O,F) x_i, per config.
   With `norm`, x is instance-normalised on the way in: the mean of normalised rows is the normalised mean. */
#include "ops/op.h"

#include <string.h>

enum { OUT, DIRECTION, NORM, STATS };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int O = (int)p->attr[OUT], F = p->in[0].cols;
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    if (!tg_has_nodes(p->in[0].space)) return tg_fail(err, TG_E_RECIPE, "the input must have rows of nodes");
    p->out = (tg_shape){p->in[0].space, O};
    p->needs_stats = (int)p->attr[NORM];
    p->makes_stats = (int)p->attr[STATS];
    tg_add_linear(p, "weight_l", "bias_l", O, F, 0);
    p->params[p->n_params++] = tg_weight("weight_r", O, F, F);
    p->needs_in = 1;
    return TG_OK;
}

/* Shared: w_l packed, w_r packed. Partial of backward: dw_l, dw_r, db_l, sums of the norm. Scratch: means, own
   rows, products of the means, in backward also the gradient of the normalised rows. */
static tg_sizes sizes(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols;
    const double product = 4.0 * (double)tg_rows(e->slate, e->out.space) * F * O;
    const int64_t rows = e->tile_rows;
    if (!back) return (tg_sizes){2 * tg_packed(e->k, O, F), tg_stats_floats(e), rows * (2 * F + O), product};
    return (tg_sizes){2 * tg_packed(e->k, F, O), 2 * (int64_t)O * F + O + tg_norm_floats(e),
                      rows * (O + 3 * F), 2 * product};
}

static void begin(const tg_exec *e, int back) {
    const int F = e->in[0].cols, O = e->out.cols, edges = e->slate->senders[(int)e->attr[DIRECTION]]->E > 0;
    if (back) {
        if (edges) tg_pack(e, 1, F, O, e->w[0], F, e->shared);
        tg_pack(e, 1, F, O, e->w[2], F, e->shared + tg_packed(e->k, F, O));
    } else {
        if (edges) tg_pack(e, 0, O, F, e->w[0], F, e->shared);
        tg_pack(e, 0, O, F, e->w[2], F, e->shared + tg_packed(e->k, O, F));
    }
}

/* to(rows, cols) = the mean of x over the node's neighbours in `csr`, each weighted by `weight` (NULL: equally),
   normalised by `stats` unless that is NULL, for the tile's rows of nodes with neighbours, one behind the other.
   Returns their number. */
static int gather(const tg_exec *e, const tg_tile *t, const tg_csr *csr, const float *weight, const float *x,
                  int cols, const float *stats, float *to) {
    const int per = tg_per_out(e);
    const int64_t n = (int64_t)per * cols, from = (int64_t)t->from * cols;
    const float *mean = stats == NULL ? NULL : stats + from, *rstd = stats == NULL ? NULL : mean + n;
    int found = 0;
    for (int at = 0; at < t->rows; at += per) {
        const int64_t v = t->item + at / per;
        const int degree = csr->ptr[v + 1] - csr->ptr[v], rows = t->rows - at < per ? t->rows - at : per;
        if (degree == 0) continue;
        e->k->mean_of(degree, csr->idx + csr->ptr[v], weight, x + from, n, (int64_t)rows * cols, mean, rstd,
                      to + (int64_t)found * cols);
        found += rows;
    }
    return found;
}

/* x(found, cols) = those rows of x(rows, cols) that `gather` finds; all of them: x itself. */
static const float *only_found(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int found, int cols,
                               const float *x, float *to) {
    const int per = tg_per_out(e);
    if (found == t->rows) return x;
    for (int at = 0, i = 0; i < found; at += per) {
        const int64_t v = t->item + at / per;
        const int rows = t->rows - at < per ? t->rows - at : per;
        if (csr->ptr[v + 1] == csr->ptr[v]) continue;
        memcpy(to + (int64_t)i * cols, x + (int64_t)at * cols, (size_t)rows * (size_t)cols * sizeof *to);
        i += rows;
    }
    return to;
}

/* y(rows, n) += a(found, k) B, a the rows `gather` has found; `room` for (found, n) */
static void add_product(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int found, int n, int k,
                        const float *a, const float *b, float *y, float *room) {
    if (found == 0) return;
    if (found == t->rows) {
        e->k->gemm(found, n, k, a, k, b, y, n, NULL, 1);
        return;
    }
    const int per = tg_per_out(e);
    e->k->gemm(found, n, k, a, k, b, room, n, NULL, 0);
    for (int at = 0, i = 0; i < found; at += per) {
        const int64_t v = t->item + at / per;
        const int rows = t->rows - at < per ? t->rows - at : per;
        if (csr->ptr[v + 1] == csr->ptr[v]) continue;
        e->k->add_rows(1, (int64_t)rows * n, room + (int64_t)i * n, 0, y + (int64_t)at * n);
        i += rows;
    }
}

/* The tile's own rows, normalised into `to` if the op does that. */
static const float *own_rows(const tg_exec *e, const tg_tile *t, float *to) {
    const float *x = e->x[0] + t->row * e->in[0].cols;
    if (e->x_stats == NULL) return x;
    tg_normalize(e, t, 0, t->rows, x, to);
    return to;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, O = e->out.cols;
    const tg_csr *senders = e->slate->senders[(int)e->attr[DIRECTION]];
    float *mean = tg_scratch(e, t), *room = mean + (int64_t)t->rows * F;
    const float *own = own_rows(e, t, room + (int64_t)t->rows * O);
    e->k->gemm(t->rows, O, F, own, F, e->shared + tg_packed(e->k, O, F), y, O, e->w[1], 0);
    const int found = gather(e, t, senders, NULL, e->x[0], F, e->x_stats, mean);
    add_product(e, t, senders, found, O, F, mean, e->shared, y, room);
    tg_stats_tile(e, t, y);
}

/* With m_j = sum over receivers i of dy_i / degree_i:  dxh_j = w_l^T m_j + w_r^T dy_j,
   dw_l = sum_j m_j^T xh_j, dw_r = sum_j dy_j^T xh_j, db_l = sum_j dy_j. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, O = e->out.cols, direction = (int)e->attr[DIRECTION],
              norm = e->x_stats != NULL;
    const int64_t size = (int64_t)O * F, rows = t->rows;
    const tg_csr *receivers = e->slate->receivers[direction];
    float *m = tg_scratch(e, t), *dxh = m + rows * O, *room = dxh + rows * F, *own = room + rows * F;
    float *dw_l = tg_share(e, t, 0, size, e->dw[0], e->dw_add[0]);
    float *dw_r = tg_share(e, t, size, size, e->dw[2], e->dw_add[2]);
    float *db = tg_share(e, t, 2 * size, O, e->dw[1], e->dw_add[1]);
    float *sums = tg_partial(e, t) + 2 * size + O;
    if (t->first && norm) memset(sums, 0, (size_t)tg_norm_floats(e) * sizeof *sums);
    const float *xh = own_rows(e, t, own);
    const int found = gather(e, t, receivers, e->slate->inv_degree[direction], e->dy, O, NULL, m);
    if (found > 0)
        e->k->gemm_tn(found, O, F, m, O, only_found(e, t, receivers, found, F, xh, room), F, dw_l, F);
    e->k->gemm_tn(t->rows, O, F, dy, O, xh, F, dw_r, F);
    e->k->add_rows(t->rows, O, dy, O, db);
    if (e->dx[0] == NULL) return;
    float *dx = norm ? dxh : e->dx[0] + t->row * F;
    e->k->gemm(t->rows, F, O, dy, O, e->shared + tg_packed(e->k, F, O), dx, F, NULL, !norm && e->dx_add[0]);
    add_product(e, t, receivers, found, F, O, m, e->shared, dx, room);
    if (norm) tg_norm_tile(e, t, 0, t->rows, dxh, e->x[0] + t->row * F, sums);
}

static void end(const tg_exec *e, int back) {
    const int64_t size = (int64_t)e->out.cols * e->in[0].cols;
    if (!back) {
        tg_stats_end(e);
        return;
    }
    tg_sum_shares(e, 0, size, e->dw[0]);
    tg_sum_shares(e, size, size, e->dw[2]);
    tg_sum_shares(e, 2 * size, e->out.cols, e->dw[1]);
    tg_norm_end(e, 2 * size + e->out.cols);
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
    .sizes = sizes,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .end = end,
};
