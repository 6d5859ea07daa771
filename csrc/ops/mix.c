/* Everything between two matrix products of the first place's blocks, one pass over memory:
   z(N,C,D) -> [instance norm] -> gate u = sigmoid(w2 relu(w1 z + b1) + b2) * z -> [u | u * softmax_C(u /
   tau)]
   -> [+ residual(N,C,F)] -> activation -> dropout -> y(N,C,F); F = 2D with cross, else D.
   Gate: per row, no pooling over nodes. Cross-config softmax: per node and channel over the configs.
   The arithmetic is kernels/mix.inc, node by node; without cross, configs are cut into blocks that fit L2.
   Rows of nodes alone, or of configs alone, are groups of one config each: they are taken a block at a time. */
#include "ops/op.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { NORM, GATE, CROSS, ACT, DROPOUT, STATS };
enum { BLOCK = 64 }; /* rows worked on at a time without cross */

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int D = p->in[0].cols, R = (int)p->attr[GATE], cross = (int)p->attr[CROSS], F = cross ? 2 * D : D;
    if (!tg_has_nodes(p->in[0].space) && (cross || (int)p->attr[NORM] || (int)p->attr[STATS]))
        return tg_fail(err, TG_E_RECIPE, "cross, norm and stats need rows of nodes");
    if (R < 0 || R > 4096) return tg_fail(err, TG_E_RECIPE, "gate must be in 0..4096, got %d", R);
    if (!(p->attr[DROPOUT] >= 0 && p->attr[DROPOUT] < 1))
        return tg_fail(err, TG_E_RECIPE, "dropout must be in [0, 1), got %g", p->attr[DROPOUT]);
    if (p->n_in == 2 && (p->in[1].space != p->in[0].space || p->in[1].cols != F))
        return tg_fail(err, TG_E_RECIPE, "the residual has %d columns, the result %d%s", p->in[1].cols, F,
                       p->in[1].space == p->in[0].space ? "" : ", and they differ in what a row is");
    p->out = (tg_shape){p->in[0].space, F};
    if (R > 0) {
        tg_add_linear(p, "gate1_weight", "gate1_bias", R, D, 0);
        tg_add_linear(p, "gate2_weight", "gate2_bias", D, R, 0);
    }
    if (cross) p->params[p->n_params++] = (tg_param_spec){"temperature", 1, 0, TG_INIT_CONSTANT, 0.5f};
    p->needs_in = p->n_in == 2 ? 3 : 1;
    p->needs_stats = (int)p->attr[NORM];
    p->makes_stats = (int)p->attr[STATS];
    p->inplace_in = p->n_in == 2 ? 1 : -1;
    p->overwrites_in0 = !p->needs_stats;
    p->recompute = 1;
    p->pulls = 1;
    p->whole_nodes = cross;
    return TG_OK;
}

static int64_t gate_floats(int D, int R) { return R == 0 ? 0 : 2 * (int64_t)D * R + R + D; }

/* Whether every row is a group of its own. */
static int alone(const tg_exec *e) { return e->in[0].space != TG_SPACE_NODE_CONFIG; }

/* Rows the kernel sees at a time. */
static int block_rows(const tg_exec *e) {
    const int most = alone(e) ? e->tile_rows : e->slate->C;
    return (!alone(e) && (int)e->attr[CROSS]) || most < BLOCK ? most : BLOCK;
}

/* Shared: gate weights packed, in backward both ways. Partial of backward: dw1 db1 dw2^T db2 dtau, sums of the norm.
   Scratch: see make_tile. */
static tg_sizes sizes(const tg_exec *e, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    const int64_t down = tg_packed(e->k, R, D), up = tg_packed(e->k, D, R), rows = block_rows(e);
    const double work = (double)tg_rows(e->slate, e->out.space) * (4.0 * D * R + 60.0 * e->out.cols);
    const int64_t strips = rows * e->k->vector;
    if (!back)
        return (tg_sizes){down + up, tg_stats_floats(e), rows * (2 * D + 2 * R + 2) + 3 * strips, work};
    return (tg_sizes){2 * (down + up), gate_floats(D, R) + 1 + tg_norm_floats(e),
                      rows * (3 * D + 4 * R + 2) + R + 4 * strips, 2 * work};
}

/* Room in the scratch for normalised rows, behind the strips. */
static float *normed_rows(const tg_exec *e, const tg_tile *tile, int back) {
    return tg_scratch(e, tile) + (back ? 4 : 3) * (int64_t)block_rows(e) * e->k->vector;
}

/* The parts of a tile that do not depend on the node. */
static tg_mix_tile make_tile(const tg_exec *e, const tg_tile *tile, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    const int64_t down = tg_packed(e->k, R, D), up = tg_packed(e->k, D, R), rows = block_rows(e);
    const double p = e->training ? e->attr[DROPOUT] : 0;
    tg_mix_tile t = {.k = e->k,
                     .D = D,
                     .R = R,
                     .act = (int)e->attr[ACT],
                     .gate = R > 0,
                     .cross = (int)e->attr[CROSS],
                     .alone = alone(e)};
    t.inv_tau = t.cross ? 1.0f / e->w[t.gate ? 4 : 0][0] : 1.0f;
    t.dropout = (tg_dropout){(uint32_t)fmin(rint(p * 0x1p31), 0x7fffffff), (float)(1.0 / (1.0 - p))};
    t.w1 = e->shared, t.w2 = t.w1 + down, t.w1t = t.w2 + up, t.w2t = t.w1t + up;
    if (t.gate) t.b1 = e->w[1], t.b2 = e->w[3];
    t.strips = tg_scratch(e, tile);
    t.u = normed_rows(e, tile, back) + rows * D;
    t.h = t.u + rows * D;
    t.h_rows = t.h + rows * R;
    t.keys = (uint32_t *)(t.h_rows + rows * R);
    t.da = t.h_rows + rows * (R + 2);
    t.dh = t.da + rows * D;
    t.h_columns = t.dh + rows * R;
    if (!back) return t;
    t.dw1 = tg_partial(e, tile), t.db1 = t.dw1 + (int64_t)R * D, t.dw2 = t.db1 + R,
    t.db2 = t.dw2 + (int64_t)R * D;
    t.dtau = t.dw1 + gate_floats(D, R);
    t.dresidual_add = e->dx_add[1];
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
    t->residual = e->x[1] == NULL ? NULL : e->x[1] + row * F;
    t->dresidual = e->dx[1] == NULL ? NULL : e->dx[1] + row * F;
    if (e->dy_fix != NULL) {
        t->fix = e->dy_fix + from * F;
        t->fix_stride = C * F;
        t->fix_row = alone(e) ? 0 : F;
    }
    if (t->dropout.threshold == 0) return;
    uint64_t node = (uint64_t)(row / C), node_key = tg_key(e->key, node);
    for (int i = 0, config = from; i < rows; i++, config++) {
        if (config == C) {
            config = 0;
            node_key = tg_key(e->key, ++node);
        }
        const uint64_t key = tg_key(node_key, (uint64_t)config);
        t->keys[2 * i] = (uint32_t)key;
        t->keys[2 * i + 1] = (uint32_t)(key >> 32);
    }
}

/* Rows from row `at` of the tile on that the kernel takes at once. */
static int next_rows(const tg_exec *e, const tg_tile *t, int at) {
    const int C = tg_per_in(e), block = block_rows(e);
    int rows = t->rows - at;
    if (!alone(e) && rows > C - (t->from + at) % C) rows = C - (t->from + at) % C;
    return rows < block ? rows : block;
}

static void begin(const tg_exec *e, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    const int64_t down = tg_packed(e->k, R, D), up = tg_packed(e->k, D, R);
    if (R == 0) return;
    tg_pack(e, 0, R, D, e->w[0], D, e->shared);
    tg_pack(e, 0, D, R, e->w[2], R, e->shared + down);
    if (!back) return;
    tg_pack(e, 1, D, R, e->w[0], D, e->shared + down + up);
    tg_pack(e, 1, R, D, e->w[2], R, e->shared + down + 2 * up);
}

static void forward(const tg_exec *e, const tg_tile *tile, float *y) {
    const float *z = tg_pull(e, tile);
    tg_mix_tile t = make_tile(e, tile, 0);
    for (int at = 0; at < tile->rows; at += t.C) {
        aim(e, tile, &t, at, next_rows(e, tile, at), z + (int64_t)at * t.D, normed_rows(e, tile, 0));
        t.out = y + (int64_t)at * e->out.cols;
        t.out_follows = e->y != NULL;
        e->k->mix_forward(&t);
    }
    tg_stats_tile(e, tile, y);
}

static void backward(const tg_exec *e, const tg_tile *tile, const float *dy) {
    const float *z = tg_pull(e, tile);
    float *dx = tg_dx(e, tile);
    tg_mix_tile t = make_tile(e, tile, 1);
    if (tile->first) memset(t.dw1, 0, (size_t)e->partial_stride * sizeof *t.dw1);
    for (int at = 0; at < tile->rows; at += t.C) {
        aim(e, tile, &t, at, next_rows(e, tile, at), z + (int64_t)at * t.D, normed_rows(e, tile, 1));
        t.dout = dy + (int64_t)at * e->out.cols;
        t.dout_follows = e->dy != NULL && e->dy != e->dx[1];
        const float *dz = e->k->mix_backward(&t); /* in scratch */
        if (dx == NULL) continue;
        float *to = dx + (int64_t)at * t.D;
        if (e->x_stats != NULL) tg_norm_tile(e, tile, at, t.C, dz, t.z, t.dtau + 1);
        else if (e->into == NULL && e->dx_add[0]) e->k->add_rows(1, (int64_t)t.C * t.D, dz, 0, to);
        else memcpy(to, dz, (size_t)t.C * (size_t)t.D * sizeof *to);
    }
    if (dx != NULL) tg_push(e, tile, dx);
}

static void end(const tg_exec *e, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    if (!back) {
        tg_stats_end(e);
        return;
    }
    const int64_t sizes_[5] = {(int64_t)R * D, R, (int64_t)R * D, D, 1};
    int64_t from = 0;
    for (int p = R > 0 ? 0 : 4, slot = 0; p < 5; from += sizes_[p], p++, slot++)
        if (p == 2) {
            tg_sum_partials(e, from, sizes_[p], e->shared, 0); /* packed weights are not needed any more */
            e->k->turn(R, D, e->shared, D, e->dw[slot], R, e->dw_add[slot]);
        } else if (e->dw[slot] != NULL) {
            tg_sum_partials(e, from, sizes_[p], e->dw[slot], e->dw_add[slot]);
        }
    tg_norm_end(e, gate_floats(D, R) + 1);
}

const tg_op tg_op_mix = {
    .name = "mix",
    .min_in = 1,
    .max_in = 2,
    .wants_table = -1,
    .fixes_dy = TG_FIXED_BY_OP,
    .tile_rows = 256, /* statistics of several nodes at a time */
    .attrs = {{"norm", 0, NULL, 0},
              {"gate", 0, NULL, 0},
              {"cross", 0, NULL, 0},
              {"act", TG_ACT_NONE, "none|relu|gelu", 0},
              {"dropout", 0, NULL, 1},
              {"stats", 0, NULL, 0}},
    .plan = plan,
    .sizes = sizes,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .end = end,
};
