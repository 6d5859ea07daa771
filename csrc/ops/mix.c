/* Everything between two matrix products of the first place's blocks, one pass over memory:
   z(N,C,D) -> [instance norm] -> gate u = sigmoid(w2 relu(w1 z + b1) + b2) * z -> [u | u * softmax_C(u /
   tau)]
   -> [+ residual(N,C,F)] -> activation -> dropout -> y(N,C,F); F = 2D with cross, else D.
   Gate: per row, no pooling over nodes. Cross-config softmax: per node and channel over the configs.
   The arithmetic is kernels/mix.inc, node by node; without cross, configs are cut into blocks that fit L2.
   Rows of nodes alone, or of configs alone, are groups of one config each: they are taken a block at a time. */
#include "ops/act.h"

#include <string.h>

enum { W1, B1, W2, B2, TEMPERATURE, SLOPE };
enum { Z, RESIDUAL };
enum { BLOCK = 64 }; /* rows worked on at a time without cross */

typedef struct attrs {
    int norm, gate, cross, act, per_column;
    double dropout;
    int stats;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int D = p->in[Z].cols, R = a->gate, F = a->cross ? 2 * D : D;
    if (!tg_has_nodes(p->in[Z].space) && (a->cross || a->stats))
        return tg_fail(err, TG_E_RECIPE, "cross and stats need rows of nodes");
    if (p->n_in == 2 && (p->in[RESIDUAL].space != p->in[Z].space || p->in[RESIDUAL].cols != F))
        return tg_fail(err, TG_E_RECIPE, "the residual has %d column%s, the result %d%s",
                       p->in[RESIDUAL].cols, TG_S(p->in[RESIDUAL].cols), F,
                       p->in[RESIDUAL].space == p->in[Z].space ? "" : ", and they differ in what a row is");
    p->out = (tg_shape){p->in[Z].space, F};
    if (R > 0) {
        tg_add_linear(p, W1, R, D, 0);
        tg_add_linear(p, W2, D, R, 0);
    }
    if (a->cross) p->params[TEMPERATURE] = (tg_param_spec){NULL, 1, 0, TG_INIT_CONSTANT, 0.5f};
    p->params[SLOPE] = tg_act_slope(F, a->per_column);
    if (!a->cross) p->flags &= ~(unsigned)TG_ACROSS_CONFIGS;
    if (!a->norm) p->flags &= ~(unsigned)TG_PER_GRAPH;
    if (a->dropout == 0) p->flags &= ~(unsigned)TG_RANDOM;
    p->needs_in = p->n_in == 2 ? 3 : 1;
    p->needs_stats = a->norm;
    p->makes_stats = a->stats;
    p->inplace_in = p->n_in == 2 ? RESIDUAL : -1;
    p->overwrites_in0 = !p->needs_stats;
    p->recompute = 1;
    p->pulls = 1;
    p->whole_nodes = a->cross;
    return TG_OK;
}

/* Whether every row is a group of its own. */
static int alone(const tg_exec *e) { return e->in[0].space != TG_SPACE_NODE_CONFIG; }

/* Rows the kernel sees at a time. */
static int block_rows(const tg_exec *e) {
    const int most = alone(e) ? e->tile_rows : e->slate->C;
    return (!alone(e) && ((const attrs *)e->attrs)->cross) || most < BLOCK ? most : BLOCK;
}

typedef struct room {
    int D, R, block;
    tg_act act;
    float *w1, *w2, *w1t, *w2t;                     /* gate weights packed; backward: transposed, too */
    float *sum;                                     /* backward: dw2 before it is transposed */
    float *strips, *normed, *u, *h, *h_rows, *keys; /* of a thread, see tg_mix_tile */
    float *da, *dh, *h_columns;                     /* backward, of a thread */
    float *dw1, *db1, *dw2, *db2, *dtau;            /* backward, of a chunk; dw2 is transposed */
} room;

static void carve_back(const tg_exec *e, tg_carver *c, room *r) {
    const int D = r->D, R = r->R;
    const int64_t rows = r->block;
    r->w1t = tg_carve(c, TG_SHARED, tg_packed(e->k, D, R));
    r->w2t = tg_carve(c, TG_SHARED, tg_packed(e->k, R, D));
    r->sum = tg_carve(c, TG_SHARED, (int64_t)R * D);
    r->da = tg_carve(c, TG_SCRATCH, rows * D);
    r->dh = tg_carve(c, TG_SCRATCH, rows * R);
    r->h_columns = tg_carve(c, TG_SCRATCH, (rows + 1) * R);
    float **places[] = {
        [W1] = &r->dw1, [B1] = &r->db1, [W2] = &r->dw2, [B2] = &r->db2, [TEMPERATURE] = &r->dtau};
    for (int p = W1; p <= TEMPERATURE; p++)
        if (e->dw[p] != NULL) *places[p] = tg_carve(c, TG_PARTIAL, tg_dw_floats(e, p));
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int D = e->in[Z].cols, R = ((const attrs *)e->attrs)->gate;
    const int64_t rows = block_rows(e);
    *r = (room){.D = D, .R = R, .block = (int)rows};
    c->work += (back ? 2 : 1) * (double)tg_rows(e->slate, e->out.space) * (4.0 * D * R + 60.0 * e->out.cols);
    tg_act_carve(e, back, c, ((const attrs *)e->attrs)->act, SLOPE, e->out.cols, &r->act);
    r->w1 = tg_carve(c, TG_SHARED, tg_packed(e->k, R, D));
    r->w2 = tg_carve(c, TG_SHARED, tg_packed(e->k, D, R));
    r->strips = tg_carve(c, TG_SCRATCH, (back ? 4 : 3) * rows * e->k->vector);
    r->normed = tg_carve(c, TG_SCRATCH, rows * D);
    r->u = tg_carve(c, TG_SCRATCH, rows * D);
    r->h = tg_carve(c, TG_SCRATCH, rows * R);
    r->h_rows = tg_carve(c, TG_SCRATCH, rows * R + (back ? R : 0));
    r->keys = tg_carve(c, TG_SCRATCH, 2 * rows);
    if (back) carve_back(e, c, r);
}

/* The parts of a tile that do not depend on the node. */
static tg_mix_tile make_tile(const tg_exec *e, const tg_tile *tile, int back) {
    const room *r = (const room *)e->room;
    const attrs *a = e->attrs;
    tg_mix_tile t = {.k = e->k,
                     .D = r->D,
                     .R = r->R,
                     .act = a->act,
                     .gate = r->R > 0,
                     .cross = a->cross,
                     .alone = alone(e),
                     .slope = r->act.slope,
                     .w1 = r->w1,
                     .w2 = r->w2,
                     .b1 = e->w[B1],
                     .b2 = e->w[B2]};
    t.inv_tau = t.cross ? 1.0f / e->w[TEMPERATURE][0] : 1.0f;
    t.dropout = tg_dropout_of(e, a->dropout);
    t.strips = tg_of_thread(e, tile, r->strips);
    t.u = tg_of_thread(e, tile, r->u);
    t.h = tg_of_thread(e, tile, r->h);
    t.h_rows = tg_of_thread(e, tile, r->h_rows);
    t.keys = (uint32_t *)tg_of_thread(e, tile, r->keys);
    if (!back) return t;
    t.w1t = r->w1t, t.w2t = r->w2t;
    t.da = tg_of_thread(e, tile, r->da);
    t.dh = tg_of_thread(e, tile, r->dh);
    t.h_columns = tg_of_thread(e, tile, r->h_columns);
    t.dslope = tg_act_share(e, tile, &r->act);
    t.dresidual_add = e->dx_add[RESIDUAL];
    return t;
}

/* Point the kernel at `rows` rows from row `at` of the tile on, as next_rows has found them, z(rows,D); normalise
   them if the op does that; derive the rows' dropout keys. `xh`: room for the normalised rows. */
static void aim(const tg_exec *e, const tg_tile *tile, tg_mix_tile *t, int at, int rows, const float *z,
                float *xh) {
    const int C = tg_per_in(e), from = (tile->from + at) % C;
    const int64_t row = tile->row + at, F = e->out.cols;
    t->C = rows;
    t->x = t->z = z;
    if (e->x_stats != NULL) {
        tg_normalize(e, tile, at, rows, z, xh);
        t->x = xh;
    }
    t->residual = e->x[RESIDUAL] == NULL ? NULL : e->x[RESIDUAL] + row * F;
    t->dresidual = e->dx[RESIDUAL] == NULL ? NULL : e->dx[RESIDUAL] + row * F;
    if (e->dy_fix != NULL) {
        t->fix = e->dy_fix + from * F;
        t->fix_stride = C * F;
        t->fix_row = alone(e) ? 0 : F;
    }
    if (t->dropout.threshold != 0) tg_row_keys(e, tile, at, rows, t->keys);
}

/* Rows from row `at` of the tile on that the kernel takes at once. */
static int next_rows(const tg_exec *e, const tg_tile *t, int at) {
    const int C = tg_per_in(e), block = block_rows(e);
    int rows = t->rows - at;
    if (!alone(e) && rows > C - (t->from + at) % C) rows = C - (t->from + at) % C;
    return rows < block ? rows : block;
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_begin(e, &r->act);
    if (r->R == 0) return;
    tg_pack(e, 0, r->R, r->D, e->w[W1], r->D, r->w1);
    tg_pack(e, 0, r->D, r->R, e->w[W2], r->R, r->w2);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    begin(e);
    if (r->R == 0) return;
    tg_pack(e, 1, r->D, r->R, e->w[W1], r->D, r->w1t);
    tg_pack(e, 1, r->R, r->D, e->w[W2], r->R, r->w2t);
}

static void forward(const tg_exec *e, const tg_tile *tile, float *y) {
    const room *r = (const room *)e->room;
    const float *z = tg_pull(e, tile);
    tg_mix_tile t = make_tile(e, tile, 0);
    for (int at = 0; at < tile->rows; at += t.C) {
        aim(e, tile, &t, at, next_rows(e, tile, at), z + (int64_t)at * t.D, tg_of_thread(e, tile, r->normed));
        t.out = y + (int64_t)at * e->out.cols;
        t.out_follows = e->y != NULL;
        e->k->mix_forward(&t);
    }
    tg_stats_tile(e, tile, y);
}

/* The tile's chunk of a sum, zeroed at its first tile; NULL: not wanted */
static float *partial_sum(const tg_exec *e, const tg_tile *t, float *place, int p) {
    if (place == NULL) return NULL;
    float *sum = tg_of_chunk(e, t, place);
    if (t->first) memset(sum, 0, (size_t)tg_dw_floats(e, p) * sizeof *sum);
    return sum;
}

static void backward(const tg_exec *e, const tg_tile *tile, const float *dy) {
    const room *r = (const room *)e->room;
    const float *z = tg_pull(e, tile);
    float *dx = tg_dx(e, tile);
    tg_mix_tile t = make_tile(e, tile, 1);
    t.dw1 = partial_sum(e, tile, r->dw1, W1);
    t.db1 = partial_sum(e, tile, r->db1, B1);
    t.dw2 = partial_sum(e, tile, r->dw2, W2);
    t.db2 = partial_sum(e, tile, r->db2, B2);
    t.dtau = partial_sum(e, tile, r->dtau, TEMPERATURE);
    for (int at = 0; at < tile->rows; at += t.C) {
        aim(e, tile, &t, at, next_rows(e, tile, at), z + (int64_t)at * t.D, tg_of_thread(e, tile, r->normed));
        t.dout = dy + (int64_t)at * e->out.cols;
        t.dout_follows = e->dy != NULL && e->dy != e->dx[RESIDUAL];
        const float *dz = e->k->mix_backward(&t); /* in scratch */
        if (dx == NULL) continue;
        float *to = dx + (int64_t)at * t.D;
        if (e->x_stats != NULL) tg_norm_tile(e, tile, at, t.C, dz, t.z);
        else if (e->into == NULL && e->dx_add[Z]) e->k->add_rows(1, (int64_t)t.C * t.D, dz, 0, to);
        else memcpy(to, dz, (size_t)t.C * (size_t)t.D * sizeof *to);
    }
    if (dx != NULL) tg_push(e, tile, dx);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int D = r->D, R = r->R;
    const float *const places[] = {[W1] = r->dw1, [B1] = r->db1, [B2] = r->db2, [TEMPERATURE] = r->dtau};
    for (int p = W1; p <= TEMPERATURE; p++)
        if (p != W2 && e->dw[p] != NULL)
            tg_sum_partials(e, places[p], tg_dw_floats(e, p), e->dw[p], e->dw_add[p]);
    tg_act_end(e, &r->act);
    if (e->dw[W2] == NULL) return;
    tg_sum_partials(e, r->dw2, (int64_t)R * D, r->sum, 0);
    e->k->turn(R, D, r->sum, D, e->dw[W2], R, e->dw_add[W2]);
}

const tg_op tg_op_mix = {
    .name = "mix",
    .doc = "Norm, channel gate, attention across configs, residual, activation and dropout in one pass "
           "(first place).",
    .inputs = {{"z", TG_IN_ANY, 0}, {"residual", TG_IN_ANY, 1}},
    .params = {[W1] = "gate1_weight",
               [B1] = "gate1_bias",
               [W2] = "gate2_weight",
               [B2] = "gate2_bias",
               [TEMPERATURE] = "temperature",
               [SLOPE] = TG_ACT_PARAM},
    .attrs =
        TG_ATTRS(TG_FLAG(attrs, norm, "instance norm of the input on the way in"),
                 TG_INT(attrs, gate, 0, 0, 4096, "hidden width of the channel gate; 0: no gate"),
                 TG_FLAG(attrs, cross, "append the product with the softmax over configs"),
                 TG_ACT_ATTRS(attrs, TG_ACT_NONE, "activation"),
                 TG_REAL(attrs, dropout, 0, 0, TG_BELOW_ONE, "chance that an element is dropped in training"),
                 TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_ACROSS_CONFIGS | TG_RANDOM | TG_PER_GRAPH,
    .fixes_dy = TG_FIXED_BY_OP,
    .most_rows = 256, /* statistics of several nodes at a time */
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
