/* SAGEConv with mean aggregation (Hamilton et al. 2017; PyG's defaults):
   y(O) of node i = w_l(O,F) mean over senders j of x_j + b_l + w_r(O,F) x_i, per config.
   With `norm`, x is instance-normalised on the way in: the mean of normalised rows is the normalised mean. */
#include "ops/op.h"

#include <string.h>

enum { WEIGHT_L, BIAS_L, WEIGHT_R };

typedef struct attrs {
    int out, direction, norm, stats;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int O = a->out, F = p->in[0].cols;
    (void)err;
    p->out = (tg_shape){p->in[0].space, O};
    p->needs_stats = a->norm;
    if (!a->norm) p->flags &= ~(unsigned)TG_PER_GRAPH;
    p->makes_stats = a->stats;
    tg_add_linear(p, WEIGHT_L, O, F, 0);
    p->params[WEIGHT_R] = tg_weight(O, F, F);
    p->needs_in = 1;
    return TG_OK;
}

typedef struct room {
    int F, O;
    const tg_csr *senders, *receivers;
    const float *inv_degree;
    float *left, *right;         /* packed w_l, w_r */
    float *dw_l, *dw_r, *db;     /* backward, of a chunk */
    float *mean, *own, *product; /* of a thread: means or sums of neighbours; own rows normalised; products */
    float *dxh;                  /* backward: gradient of the normalised rows */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    const int F = e->in[0].cols, O = e->out.cols;
    const int64_t rows = e->tile_rows, packed = back ? tg_packed(e->k, F, O) : tg_packed(e->k, O, F);
    *r = (room){.F = F,
                .O = O,
                .senders = e->slate->senders[a->direction],
                .receivers = e->slate->receivers[a->direction],
                .inv_degree = e->slate->inv_degree[a->direction]};
    c->work += (back ? 8.0 : 4.0) * (double)tg_rows(e->slate, e->out.space) * F * O;
    r->left = tg_carve(c, TG_SHARED, packed);
    r->right = tg_carve(c, TG_SHARED, packed);
    r->mean = tg_carve(c, TG_SCRATCH, rows * (back ? O : F));
    r->own = tg_carve(c, TG_SCRATCH, rows * F);
    r->product = tg_carve(c, TG_SCRATCH, rows * (back ? F : O));
    if (!back) return;
    r->dxh = tg_carve(c, TG_SCRATCH, rows * F);
    r->dw_l = tg_carve(c, TG_PARTIAL, (int64_t)O * F);
    r->dw_r = tg_carve(c, TG_PARTIAL, (int64_t)O * F);
    r->db = tg_carve(c, TG_PARTIAL, O);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    if (r->senders->E > 0) tg_pack(e, 0, r->O, r->F, e->w[WEIGHT_L], r->F, r->left);
    tg_pack(e, 0, r->O, r->F, e->w[WEIGHT_R], r->F, r->right);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    if (r->senders->E > 0) tg_pack(e, 1, r->F, r->O, e->w[WEIGHT_L], r->F, r->left);
    tg_pack(e, 1, r->F, r->O, e->w[WEIGHT_R], r->F, r->right);
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

/* y(rows, n) += a(found, k) B, a the rows `gather` has found; `products` for (found, n) */
static void add_product(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int found, int n, int k,
                        const float *a, const float *b, float *y, float *products) {
    if (found == 0) return;
    if (found == t->rows) {
        e->k->gemm(found, n, k, a, k, b, y, n, NULL, 1);
        return;
    }
    const int per = tg_per_out(e);
    e->k->gemm(found, n, k, a, k, b, products, n, NULL, 0);
    for (int at = 0, i = 0; i < found; at += per) {
        const int64_t v = t->item + at / per;
        const int rows = t->rows - at < per ? t->rows - at : per;
        if (csr->ptr[v + 1] == csr->ptr[v]) continue;
        e->k->add_rows(1, (int64_t)rows * n, products + (int64_t)i * n, 0, y + (int64_t)at * n);
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
    const room *r = (const room *)e->room;
    const int F = r->F, O = r->O;
    float *mean = tg_of_thread(e, t, r->mean);
    const float *own = own_rows(e, t, tg_of_thread(e, t, r->own));
    e->k->gemm(t->rows, O, F, own, F, r->right, y, O, e->w[BIAS_L], 0);
    const int found = gather(e, t, r->senders, NULL, e->x[0], F, e->x_stats, mean);
    add_product(e, t, r->senders, found, O, F, mean, r->left, y, tg_of_thread(e, t, r->product));
    tg_stats_tile(e, t, y);
}

/* With m_j = sum over receivers i of dy_i / degree_i:  dw_l = sum_j m_j^T xh_j, dw_r = sum_j dy_j^T xh_j,
   db_l = sum_j dy_j. `m`: the rows that `gather` has found. */
static void weight_gradients(const tg_exec *e, const tg_tile *t, const float *m, int found, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = r->F, O = r->O;
    float *dw_l = tg_share_dw(e, t, r->dw_l, WEIGHT_L), *dw_r = tg_share_dw(e, t, r->dw_r, WEIGHT_R),
          *db = tg_share_dw(e, t, r->db, BIAS_L);
    const float *xh = own_rows(e, t, tg_of_thread(e, t, r->own));
    float *rows = tg_of_thread(e, t, r->product);
    if (found > 0)
        e->k->gemm_tn(found, O, F, m, O, only_found(e, t, r->receivers, found, F, xh, rows), F, dw_l, F);
    e->k->gemm_tn(t->rows, O, F, dy, O, xh, F, dw_r, F);
    e->k->add_rows(t->rows, O, dy, O, db);
}

/* dxh_j = w_l^T m_j + w_r^T dy_j */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = r->F, O = r->O, norm = e->x_stats != NULL;
    float *m = tg_of_thread(e, t, r->mean);
    const int found = gather(e, t, r->receivers, r->inv_degree, e->dy, O, NULL, m);
    if (e->dw[WEIGHT_L] != NULL) weight_gradients(e, t, m, found, dy);
    if (e->dx[0] == NULL) return;
    float *dxh = tg_of_thread(e, t, r->dxh), *dx = norm ? dxh : e->dx[0] + t->row * F;
    e->k->gemm(t->rows, F, O, dy, O, r->right, dx, F, NULL, !norm && e->dx_add[0]);
    add_product(e, t, r->receivers, found, F, O, m, r->left, dx, tg_of_thread(e, t, r->product));
    if (norm) tg_norm_tile(e, t, 0, t->rows, dxh, e->x[0] + t->row * F);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_dw(e, r->dw_l, WEIGHT_L);
    tg_sum_dw(e, r->dw_r, WEIGHT_R);
    tg_sum_dw(e, r->db, BIAS_L);
}

const tg_op tg_op_sage = {
    .name = "sage",
    .doc = "SAGEConv with mean aggregation (Hamilton et al. 2017).",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .params = {[WEIGHT_L] = "weight_l", [BIAS_L] = "bias_l", [WEIGHT_R] = "weight_r"},
    .attrs = TG_ATTRS(TG_INT(attrs, out, 1, 1, 65536, "columns of the result"),
                      TG_CHOICE(attrs, direction, TG_FORWARD, TG_DIRECTION_NAMES, "who sends to whom"),
                      TG_FLAG(attrs, norm, "instance norm of the input on the way in"),
                      TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES | TG_PER_GRAPH,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
