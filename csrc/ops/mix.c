/* Everything between two matrix products of the first place's blocks, one pass over memory:
   z(N,C,D) -> [instance norm] -> gate u = sigmoid(w2 relu(w1 z + b1) + b2) * z -> [u | u * softmax_C(u /
   tau)]
   -> [+ residual(N,C,F)] -> activation -> dropout -> y(N,C,F); F = 2D with cross, else D.
   Gate: per row, no pooling over nodes. Cross-config softmax: per node and channel over the configs.
   The arithmetic is kernels/mix.inc, node by node; without cross, configs are cut into blocks that fit L2. */
#include "ops/op.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum { NORM, GATE, CROSS, ACT, DROPOUT, STATS };
enum { BLOCK = 64 }; /* configs per tile without cross */

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int D = p->in[0].cols, R = (int)p->attr[GATE], cross = (int)p->attr[CROSS], F = cross ? 2 * D : D;
    if (p->in[0].space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "the input must have one row per node and config");
    if (R < 0 || R > 4096) return tg_fail(err, TG_E_RECIPE, "gate must be in 0..4096, got %d", R);
    if (!(p->attr[DROPOUT] >= 0 && p->attr[DROPOUT] < 1))
        return tg_fail(err, TG_E_RECIPE, "dropout must be in [0, 1), got %g", p->attr[DROPOUT]);
    if (p->n_in == 2 && (p->in[1].space != TG_SPACE_NODE_CONFIG || p->in[1].cols != F))
        return tg_fail(err, TG_E_RECIPE, "the residual has %d columns, the result %d", p->in[1].cols, F);
    p->out = (tg_shape){TG_SPACE_NODE_CONFIG, F};
    if (R > 0) {
        tg_add_linear(p, "gate1_weight", "gate1_bias", R, D, 0);
        tg_add_linear(p, "gate2_weight", "gate2_bias", D, R, 0);
    }
    if (cross) p->params[p->n_params++] = (tg_param_spec){"temperature", 1, 0, TG_INIT_CONSTANT, 0.5f};
    p->needs_in = p->n_in == 2 ? 3 : 1;
    p->needs_stats = (int)p->attr[NORM];
    p->makes_stats = (int)p->attr[STATS];
    p->inplace_in = p->n_in == 2 ? 1 : -1;
    p->recompute = 1;
    return TG_OK;
}

typedef struct context {
    float *w1, *w2, *w1t, *w2t; /* packed gate weights, both ways */
    float *partials;            /* per chunk: forward statistics; backward dw1 db1 dw2 db2 dtau [s1 s2] */
    int64_t stride;
    float *sums; /* (2,C,D) */
    tg_loop loop;
    int block; /* configs per tile */
} context;

static int gate_floats(int D, int R) { return R == 0 ? 0 : 2 * D * R + R + D; }

static context make_context(const tg_exec *e, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE], C = e->slate->C;
    const int64_t down = tg_packed(e->k, R, D), up = tg_packed(e->k, D, R);
    context c = {.w1 = e->shared, .loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG)};
    c.w2 = c.w1 + down;
    c.w1t = c.w2 + up;
    c.w2t = c.w1t + (back ? up : 0);
    c.sums = c.w2t + (back ? down : 0);
    c.partials = c.sums + (back && e->x_stats != NULL ? 2 * (int64_t)C * D : 0);
    if (back) c.stride = gate_floats(D, R) + 1 + (e->x_stats == NULL ? 0 : 2 * (int64_t)C * D);
    else c.stride = e->y_stats == NULL ? 0 : tg_stats_floats((int64_t)C * e->out.cols);
    c.block = (int)e->attr[CROSS] || C < BLOCK ? C : BLOCK;
    return c;
}

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    context c = make_context(e, back);
    *shared = (c.partials - e->shared) + c.loop.chunks * c.stride;
    *scratch = (int64_t)c.block * ((back ? 5 : 3) * D + (back ? 2 : 1) * R + 2);
}

/* The parts of a tile that do not depend on the node. */
static tg_mix_tile make_tile(const tg_exec *e, const context *c, float *scratch) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    const double p = e->training ? e->attr[DROPOUT] : 0;
    tg_mix_tile t = {.D = D,
                     .R = R,
                     .act = (int)e->attr[ACT],
                     .gate = R > 0,
                     .cross = (int)e->attr[CROSS],
                     .norm = e->x_stats != NULL};
    t.inv_tau = t.cross ? 1.0f / e->w[t.gate ? 4 : 0][0] : 1.0f;
    t.dropout = (tg_dropout){(uint32_t)fmin(rint(p * 0x1p31), 0x7fffffff), (float)(1.0 / (1.0 - p))};
    t.w1 = c->w1, t.w2 = c->w2, t.w1t = c->w1t, t.w2t = c->w2t;
    if (t.gate) t.b1 = e->w[1], t.b2 = e->w[3];
    t.xh = scratch;
    t.u = t.xh + (int64_t)c->block * D;
    t.e = t.u + (int64_t)c->block * D;
    t.h = t.e + (int64_t)c->block * D;
    t.da = t.h + (int64_t)c->block * R + 2 * (int64_t)c->block;
    t.dh = t.da + (int64_t)c->block * D;
    return t;
}

/* Point the tile at configs [from, from + t->C) of a node and derive the rows' dropout keys. */
static void aim(const tg_exec *e, const context *c, tg_mix_tile *t, int64_t node, int from, float *scratch) {
    const int64_t row = node * e->slate->C + from;
    t->C = e->slate->C - from < c->block ? e->slate->C - from : c->block;
    t->z = e->x[0] + row * t->D;
    if (t->norm) {
        t->mean = e->x_stats + (int64_t)from * t->D;
        t->rstd = t->mean + (int64_t)e->slate->C * t->D;
    }
    t->residual = e->x[1] == NULL ? NULL : e->x[1] + row * e->out.cols;
    if (t->dropout.threshold == 0) return;
    uint32_t *keys = (uint32_t *)(scratch + (int64_t)c->block * (3 * t->D + t->R));
    const uint64_t node_key = tg_key(e->key, (uint64_t)node);
    for (int i = 0; i < t->C; i++) {
        uint64_t key = tg_key(node_key, (uint64_t)(from + i));
        keys[2 * i] = (uint32_t)key;
        keys[2 * i + 1] = (uint32_t)(key >> 32);
    }
    t->keys = keys;
}

static void pack_gate(const tg_exec *e, const context *c, int back) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    if (R == 0) return;
    e->k->pack_nt(R, D, e->w[0], D, c->w1);
    e->k->pack_nt(D, R, e->w[2], R, c->w2);
    if (!back) return;
    e->k->pack_nn(D, R, e->w[0], D, c->w1t);
    e->k->pack_nn(R, D, e->w[2], R, c->w2t);
}

/* Rough operations per element: transcendental functions dominate. */
static double work(const tg_exec *e) {
    return (double)tg_rows(e->slate, TG_SPACE_NODE_CONFIG) *
           (4.0 * e->in[0].cols * e->attr[GATE] + 60.0 * e->out.cols);
}

static void forward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const context *c = context_;
    const int64_t n = (int64_t)e->slate->C * e->out.cols;
    tg_mix_tile t = make_tile(e, c, scratch);
    for (int64_t i = begin; i < end; i++) {
        for (int from = 0; from < e->slate->C; from += c->block) {
            aim(e, c, &t, i, from, scratch);
            t.out = e->y + i * n + (int64_t)from * e->out.cols;
            e->k->mix_forward(&t);
        }
        if (e->y_stats != NULL)
            tg_stats_tile(e->k, c->partials + chunk * c->stride, n, e->y + i * n, i == begin);
    }
}

static void forward(const tg_exec *e) {
    context c = make_context(e, 0);
    pack_gate(e, &c, 0);
    tg_run_chunks(e, c.loop, work(e), forward_chunk, &c);
    if (e->y_stats != NULL)
        tg_stats_finish(c.loop, (int64_t)e->slate->C * e->out.cols, c.partials, e->y_stats);
}

static void backward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const context *c = context_;
    const int D = e->in[0].cols, R = (int)e->attr[GATE], C = e->slate->C;
    const int64_t n = (int64_t)C * D;
    float *dw = c->partials + chunk * c->stride, *s1 = dw + gate_floats(D, R) + 1, *s2 = s1 + n;
    tg_mix_tile t = make_tile(e, c, scratch);
    float *dxh = t.dh + (int64_t)c->block * R;
    memset(dw, 0, (size_t)c->stride * sizeof *dw);
    t.dw1 = dw, t.db1 = dw + (int64_t)R * D, t.dw2 = t.db1 + R, t.db2 = t.dw2 + (int64_t)R * D;
    t.dtau = dw + gate_floats(D, R);
    t.dresidual_add = e->dx_add[1];
    for (int64_t i = begin; i < end; i++)
        for (int from = 0; from < C; from += c->block) {
            const int64_t at = (i * C + from) * e->out.cols, z = i * n + (int64_t)from * D,
                          s = (int64_t)from * D;
            aim(e, c, &t, i, from, scratch);
            t.dout = e->dy + at;
            t.dresidual = e->dx[1] == NULL ? NULL : e->dx[1] + at;
            t.dz = t.norm || e->dx_add[0] ? dxh : e->dx[0] + z;
            e->k->mix_backward(&t);
            if (t.norm)
                e->k->norm_back((int64_t)t.C * D, dxh, t.z, t.mean, t.rstd, s1 + s, s2 + s, e->dx[0] + z,
                                e->dx_add[0]);
            else if (e->dx_add[0]) e->k->add_rows(1, (int64_t)t.C * D, dxh, 0, e->dx[0] + z);
        }
}

static void backward(const tg_exec *e) {
    const int D = e->in[0].cols, R = (int)e->attr[GATE];
    context c = make_context(e, 1);
    pack_gate(e, &c, 1);
    tg_run_chunks(e, c.loop, 2 * work(e), backward_chunk, &c);
    const int64_t sizes[5] = {(int64_t)R * D, R, (int64_t)R * D, D, 1};
    const float *from = c.partials;
    for (int p = R > 0 ? 0 : 4, slot = 0; p < 5; from += sizes[p], p++, slot++)
        if (e->dw[slot] != NULL)
            tg_sum_partials(c.loop.chunks, sizes[p], from, c.stride, e->dw[slot], e->dw_add[slot]);
    if (e->x_stats == NULL) return;
    const int64_t n = (int64_t)e->slate->C * D;
    tg_sum_partials(c.loop.chunks, 2 * n, c.partials + gate_floats(D, R) + 1, c.stride, c.sums, 0);
    tg_norm_finish(e, c.sums);
}

const tg_op tg_op_mix = {
    .name = "mix",
    .min_in = 1,
    .max_in = 2,
    .wants_table = -1,
    .attrs = {{"norm", 0, NULL, 0},
              {"gate", 0, NULL, 0},
              {"cross", 0, NULL, 0},
              {"act", TG_ACT_NONE, "none|relu|gelu", 0},
              {"dropout", 0, NULL, 1},
              {"stats", 0, NULL, 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
