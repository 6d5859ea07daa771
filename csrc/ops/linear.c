/* y(rows,O) = act(x(rows,F) w(O,F)^T + b(O)). With a second input, one row r(1,G) per slate, that row stands before
   every row of x: w is (O,G+F), and as its product with r is the same for all rows, it is computed once and added
   to the bias. */
#include "ops/op.h"

#include <string.h>

enum { OUT, ACT, STATS, INIT };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int O = (int)p->attr[OUT], F = p->in[0].cols;
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    if (p->n_in == 2 && p->in[1].space != TG_SPACE_SLATE)
        return tg_fail(err, TG_E_RECIPE, "the second input must have one row per graph");
    p->out = (tg_shape){p->in[0].space, O};
    p->makes_stats = (int)p->attr[STATS];
    if (p->makes_stats && !tg_has_nodes(p->out.space))
        return tg_fail(err, TG_E_RECIPE, "stats needs rows of nodes");
    tg_add_linear(p, "weight", "bias", O, F + (p->n_in == 2 ? p->in[1].cols : 0), (int)p->attr[INIT] == 1);
    p->needs_in = p->n_in == 2 ? 3 : 1;
    p->pulls = 1;
    return TG_OK;
}

/* Where everything is that the call shares. */
typedef struct room {
    int F, G, O, wide;
    float *packed, *transposed; /* columns G.. of the weight, for x */
    float *row;                 /* the columns before, for r; packed for what the phase multiplies */
    float *bias;                /* (O): with the product of r */
    float *sum;                 /* backward: (O), the sum of dz over all rows, if there is an r */
    int64_t floats;
} room;

static room rooms(const tg_exec *e, int back) {
    room r = {.F = e->in[0].cols, .G = e->x[1] == NULL ? 0 : e->in[1].cols, .O = e->out.cols};
    const int64_t forth = tg_packed(e->k, r.O, r.G), again = back ? tg_packed(e->k, r.G, r.O) : 0;
    const int64_t sizes[] = {tg_packed(e->k, r.O, r.F), back ? tg_packed(e->k, r.F, r.O) : 0,
                             forth > again ? forth : again, r.O, r.O};
    float **parts[] = {&r.packed, &r.transposed, &r.row, &r.bias, &r.sum};
    r.wide = r.G + r.F;
    for (int i = 0; i < (r.G > 0 ? 5 : 2); r.floats += sizes[i++])
        *parts[i] = e->shared == NULL ? NULL : e->shared + r.floats;
    return r;
}

/* Partial of backward: dw, db. */
static tg_sizes sizes(const tg_exec *e, int back) {
    const room r = rooms(e, back);
    const double product = 2.0 * (double)tg_rows(e->slate, e->out.space) * r.F * r.O;
    if (!back) return (tg_sizes){r.floats, tg_stats_floats(e), 0, product};
    return (tg_sizes){r.floats, (int64_t)r.O * r.wide + r.O,
                      (int)e->attr[ACT] == TG_ACT_NONE ? 0 : 2 * (int64_t)e->tile_rows * r.O, 2 * product};
}

static void begin(const tg_exec *e, int back) {
    const room r = rooms(e, back);
    if (back) tg_pack(e, 1, r.F, r.O, e->w[0] + r.G, r.wide, r.transposed);
    if (back && (int)e->attr[ACT] == TG_ACT_NONE) return;
    tg_pack(e, 0, r.O, r.F, e->w[0] + r.G, r.wide, r.packed);
    if (r.G == 0) return;
    tg_pack(e, 0, r.O, r.G, e->w[0], r.wide, r.row);
    tg_gemm_rows(e, 1, r.O, r.G, e->x[1], r.G, r.row, r.bias, r.O, e->w[1], 0);
}

static const float *bias_of(const tg_exec *e, const room *r) { return r->G == 0 ? e->w[1] : r->bias; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room r = rooms(e, 0);
    const int act = (int)e->attr[ACT];
    e->k->gemm(t->rows, r.O, r.F, tg_pull(e, t), r.F, r.packed, y, r.O, bias_of(e, &r), 0);
    if (act != TG_ACT_NONE) e->k->act((int64_t)t->rows * r.O, act, y, y);
    tg_stats_tile(e, t, y);
}

/* dz = dy act'(z) with z recomputed; dw(O,F) += dz^T x; db += sum dz; dx = dz w */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room r = rooms(e, 1);
    const int F = r.F, O = r.O, act = (int)e->attr[ACT];
    const float *x = tg_pull(e, t), *dz = tg_dy(e, t, dy);
    const int64_t size = (int64_t)O * r.wide;
    float *dw = tg_share(e, t, 0, size, e->dw[0], e->dw_add[0]), *dx = tg_dx(e, t);
    float *db =
        r.G == 0 ? tg_share(e, t, size, O, e->dw[1], e->dw_add[1]) : tg_share(e, t, size, O, r.sum, 0);
    if (act != TG_ACT_NONE) {
        float *d = tg_scratch(e, t), *z = d + (int64_t)t->rows * O;
        e->k->gemm(t->rows, O, F, x, F, r.packed, z, O, bias_of(e, &r), 0);
        e->k->act_grad((int64_t)t->rows * O, act, dz, z, d);
        dz = d;
    }
    e->k->gemm_tn(t->rows, O, F, dz, O, x, F, dw + r.G, r.wide);
    e->k->add_rows(t->rows, O, dz, O, db);
    if (dx == NULL) return;
    e->k->gemm(t->rows, F, O, dz, O, r.transposed, dx, F, NULL, e->into == NULL && e->dx_add[0]);
    tg_push(e, t, dx);
}

/* What is left of the joined row: with s(O) the sum of dz over all rows, dw[:, :G] += s^T r, db = s, dr = s w. */
static void end_joined(const tg_exec *e, const room *r) {
    if (!e->dw_add[1]) memset(e->dw[1], 0, (size_t)r->O * sizeof *r->sum);
    e->k->add_rows(1, r->O, r->sum, 0, e->dw[1]);
    e->k->gemm_tn(1, r->O, r->G, r->sum, r->O, e->x[1], r->G, e->dw[0], r->wide);
    if (e->dx[1] == NULL) return;
    tg_pack(e, 1, r->G, r->O, e->w[0], r->wide, r->row);
    tg_gemm_rows(e, 1, r->G, r->O, r->sum, r->O, r->row, e->dx[1], r->G, NULL, e->dx_add[1]);
}

static void end(const tg_exec *e, int back) {
    if (!back) {
        tg_stats_end(e);
        return;
    }
    const room r = rooms(e, 1);
    const int64_t size = (int64_t)r.O * r.wide;
    tg_sum_shares(e, 0, size, e->dw[0]);
    tg_sum_shares(e, size, r.O, r.G == 0 ? e->dw[1] : r.sum);
    if (r.G > 0) end_joined(e, &r);
}

const tg_op tg_op_linear = {
    .name = "linear",
    .min_in = 1,
    .max_in = 2,
    .joins = 1,
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
