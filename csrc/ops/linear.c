/* y(rows,O) = act(x(rows,F) w(O,F)^T + b(O)), or without b. With a second input, one row r(1,G) per slate, that
   row stands before every row of x: w is (O,G+F), and as its product with r is the same for all rows, it is computed
   once and added to the bias. */
#include "ops/act.h"

#include <string.h>

enum { WEIGHT, BIAS, SLOPE };
enum { X, ROW };

typedef struct attrs {
    int out, act, per_column, stats, init, use_bias;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    p->out = (tg_shape){p->in[X].space, a->out};
    p->makes_stats = a->stats;
    if (p->makes_stats && !tg_has_nodes(p->out.space))
        return tg_fail(err, TG_E_RECIPE, "stats needs rows of nodes");
    tg_add_linear(p, WEIGHT, a->out, p->in[X].cols + (p->n_in == 2 ? p->in[ROW].cols : 0), a->init);
    if (!a->use_bias) p->params[BIAS] = (tg_param_spec){.name = NULL};
    p->params[SLOPE] = tg_act_slope(a->out, a->per_column);
    p->needs_in = p->n_in == 2 ? 3 : 1;
    p->pulls = 1;
    return TG_OK;
}

/* Where everything is. */
typedef struct room {
    int F, G, O, wide;
    tg_act act;
    float *packed, *transposed; /* columns G.. of the weight, for x */
    float *row;                 /* the columns before, for r; packed for what the phase multiplies */
    float *bias;                /* (O): with the product of r */
    float *sum;                 /* backward: (O), the sum of dz over all rows, if there is an r */
    float *dw, *db;             /* backward, of a chunk */
    float *z, *dz;              /* backward, of a thread: (rows,O) */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r = (room){.F = e->in[X].cols, .G = e->n_in == 2 ? e->in[ROW].cols : 0, .O = e->out.cols};
    const int64_t forth = tg_packed(e->k, r->O, r->G), again = back ? tg_packed(e->k, r->G, r->O) : 0;
    const int64_t rows = e->tile_rows;
    r->wide = r->G + r->F;
    c->work += (back ? 4.0 : 2.0) * (double)tg_rows(e->slate, e->out.space) * r->F * r->O;
    tg_act_carve(e, back, c, a->act, SLOPE, r->O, &r->act);
    r->packed = tg_carve(c, TG_SHARED, tg_packed(e->k, r->O, r->F));
    if (back) r->transposed = tg_carve(c, TG_SHARED, tg_packed(e->k, r->F, r->O));
    if (r->G > 0) {
        r->row = tg_carve(c, TG_SHARED, forth > again ? forth : again);
        r->bias = tg_carve(c, TG_SHARED, r->O);
        r->sum = tg_carve(c, TG_SHARED, r->O);
    }
    if (!back) return;
    r->dw = tg_carve(c, TG_PARTIAL, (int64_t)r->O * r->wide);
    r->db = tg_carve(c, TG_PARTIAL, r->O);
    if (a->act == TG_ACT_NONE) return;
    r->z = tg_carve(c, TG_SCRATCH, rows * r->O);
    r->dz = tg_carve(c, TG_SCRATCH, rows * r->O);
}

/* The weight packed for x w^T, and the part of the joined row. */
static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_begin(e, &r->act);
    tg_pack(e, 0, r->O, r->F, e->w[WEIGHT] + r->G, r->wide, r->packed);
    if (r->G == 0) return;
    tg_pack(e, 0, r->O, r->G, e->w[WEIGHT], r->wide, r->row);
    tg_gemm_rows(e, 1, r->O, r->G, e->x[ROW], r->G, r->row, r->bias, r->O, e->w[BIAS], 0);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_pack(e, 1, r->F, r->O, e->w[WEIGHT] + r->G, r->wide, r->transposed);
    if (r->act.kind != TG_ACT_NONE) begin(e);
}

static const float *bias_of(const tg_exec *e, const room *r) { return r->G == 0 ? e->w[BIAS] : r->bias; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    e->k->gemm(t->rows, r->O, r->F, tg_pull(e, t), r->F, r->packed, y, r->O, bias_of(e, r), 0);
    if (r->act.kind != TG_ACT_NONE) tg_act_forward(e, &r->act, t->rows, y, y);
    tg_stats_tile(e, t, y);
}

/* Where the tile's sum of dz goes: db, or, with a joined row, a sum that is read again at the end. */
static float *bias_share(const tg_exec *e, const tg_tile *t, const room *r) {
    const int joined = r->G > 0;
    return tg_share(e, t, r->db, r->O, joined ? r->sum : e->dw[BIAS], joined ? 0 : e->dw_add[BIAS]);
}

/* dz = dy act'(z) with z recomputed; dw(O,F) += dz^T x; db += sum dz; dx = dz w */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = r->F, O = r->O;
    const float *x = tg_pull(e, t), *dz = tg_dy(e, t, dy);
    float *dx = tg_dx(e, t);
    if (r->act.kind != TG_ACT_NONE) {
        float *d = tg_of_thread(e, t, r->dz), *z = tg_of_thread(e, t, r->z);
        e->k->gemm(t->rows, O, F, x, F, r->packed, z, O, bias_of(e, r), 0);
        tg_act_backward(e, &r->act, t->rows, dz, z, d, tg_act_share(e, t, &r->act));
        dz = d;
    }
    if (e->dw[WEIGHT] != NULL) {
        float *dw = tg_share_dw(e, t, r->dw, WEIGHT);
        e->k->gemm_tn(t->rows, O, F, dz, O, x, F, dw + r->G, r->wide);
    }
    if (e->dw[BIAS] != NULL || r->G > 0) e->k->add_rows(t->rows, O, dz, O, bias_share(e, t, r));
    if (dx == NULL) return;
    e->k->gemm(t->rows, F, O, dz, O, r->transposed, dx, F, NULL, e->into == NULL && e->dx_add[X]);
    tg_push(e, t, dx);
}

/* What is left of the joined row: with s(O) the sum of dz over all rows, dw[:, :G] += s^T r, db = s, dr = s w. */
static void end_joined(const tg_exec *e, const room *r) {
    tg_sum_shares(e, r->db, r->O, r->sum, 0);
    if (e->dw[BIAS] != NULL) {
        if (!e->dw_add[BIAS]) memset(e->dw[BIAS], 0, (size_t)r->O * sizeof *r->sum);
        e->k->add_rows(1, r->O, r->sum, 0, e->dw[BIAS]);
    }
    if (e->dw[WEIGHT] != NULL)
        e->k->gemm_tn(1, r->O, r->G, r->sum, r->O, e->x[ROW], r->G, e->dw[WEIGHT], r->wide);
    if (e->dx[ROW] == NULL) return;
    tg_pack(e, 1, r->G, r->O, e->w[WEIGHT], r->wide, r->row);
    tg_gemm_rows(e, 1, r->G, r->O, r->sum, r->O, r->row, e->dx[ROW], r->G, NULL, e->dx_add[ROW]);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_end(e, &r->act);
    tg_sum_dw(e, r->dw, WEIGHT);
    if (r->G > 0) end_joined(e, r);
    else tg_sum_dw(e, r->db, BIAS);
}

const tg_op tg_op_linear = {
    .name = "linear",
    .doc = "Linear layer, x w^T + b; with a second input, that row stands before every row of x.",
    .inputs = {{"x", TG_IN_ANY, 0}, {"row", TG_IN(SLATE), 1}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias", [SLOPE] = TG_ACT_PARAM},
    .attrs = TG_ATTRS(TG_INT(attrs, out, 1, 1, 65536, "columns of the result"),
                      TG_ACT_ATTRS(attrs, TG_ACT_NONE, "activation"),
                      TG_FLAG(attrs, stats, "keep norm statistics of the result"),
                      TG_CHOICE(attrs, init, 0, TG_LINEAR_INITS, TG_LINEAR_INITS_DOC),
                      TG_FLAG_ON(attrs, use_bias, "there is a bias")),
    .fixes_dy = TG_FIXED_IN_TILES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
