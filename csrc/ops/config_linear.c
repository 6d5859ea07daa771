/* The first layer, factorised exactly into a part per graph and table look-ups.
   Per node and config the input row would be [h(N,F)[:column] | 18 digits x embedding(D) | h[column:]] and
   y = row . weight(O, F + 18 D)^T + bias(O). Instead: base(N,O) = h . [weight without the config columns]^T +
   bias once per graph, T(18,8,O) = weight's config columns times the embedding table (8,D), and y(n,c) =
   base(n) + sum_p T[p][digit + 2] at configurable nodes, + sum_p T[p][0] ("not configurable") elsewhere. */
#include "ops/op.h"

#include <string.h>

enum { OUT, COLUMN, COLS, STATS, INIT };
enum { ENTRIES = TG_DIGITS * TG_DIGIT_ROWS };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int O = (int)p->attr[OUT], F = p->in[0].cols,
              D = p->table_cols > 0 ? p->table_cols : (int)p->attr[COLS];
    const int wide = F + TG_DIGITS * D;
    if (p->in[0].space != TG_SPACE_NODE)
        return tg_fail(err, TG_E_RECIPE, "the input must have one row per node");
    if (O < 1 || O > 65536) return tg_fail(err, TG_E_RECIPE, "out must be in 1..65536, got %d", O);
    if (D < 1 || D > 4096) return tg_fail(err, TG_E_RECIPE, "cols must be in 1..4096, got %d", D);
    if (p->attr[COLUMN] < 0 || p->attr[COLUMN] > F)
        return tg_fail(err, TG_E_RECIPE, "column must be in 0..%d, got %g", F, p->attr[COLUMN]);
    p->out = (tg_shape){TG_SPACE_NODE_CONFIG, O};
    p->makes_stats = (int)p->attr[STATS];
    tg_add_linear(p, "weight", "bias", O, wide, (int)p->attr[INIT] == 1);
    p->params[p->n_params++] = (tg_param_spec){"table", TG_DIGIT_ROWS, D, TG_INIT_NORMAL, 1.0f};
    p->needs_in = 1;
    return TG_OK;
}

typedef struct context {
    int F, O, D, column, wide;
    float *table; /* (18,8,O) */
    float *base;  /* forward: (N,O) base; backward: (N,O) sum of dy over configs */
    float *fixed; /* (O) sum of the tables' row 0 */
    float *packed,
        *packed_rest; /* weights of the columns before and after the config's: forward B(F -> O), backward B(O -> F) */
    float *dtable;   /* backward (18,8,O), then (O) of the nodes that are not configurable */
    float *partials; /* per chunk: statistics, or dtable as above */
    int64_t stride;
    tg_loop loop;
} context;

static context make_context(const tg_exec *e, int back) {
    context c = {.F = e->in[0].cols,
                 .O = e->out.cols,
                 .D = e->table_cols,
                 .column = (int)e->attr[COLUMN],
                 .table = e->shared,
                 .loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG)};
    c.wide = c.F + TG_DIGITS * c.D;
    c.base = c.table + (int64_t)ENTRIES * c.O;
    c.fixed = c.base + (int64_t)e->slate->N * c.O;
    c.packed = c.fixed + c.O;
    const int rest = c.F - c.column;
    c.packed_rest = c.packed + (back ? tg_packed(e->k, c.column, c.O) : tg_packed(e->k, c.O, c.column));
    c.dtable = c.packed_rest + (back ? tg_packed(e->k, rest, c.O) : tg_packed(e->k, c.O, rest));
    c.partials = c.dtable + (back ? (int64_t)(ENTRIES + 1) * c.O : 0);
    if (back) c.stride = (int64_t)(ENTRIES + 1) * c.O;
    else c.stride = e->y_stats == NULL ? 0 : tg_stats_floats((int64_t)e->slate->C * c.O);
    return c;
}

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    context c = make_context(e, back);
    *shared = (c.partials - e->shared) + c.loop.chunks * c.stride;
    *scratch = 0;
}

/* T[p][v][o] = sum_d weight[o][column + p D + d] table[v][d], and its row-0 sum */
static void build_table(const tg_exec *e, const context *c) {
    memset(c->fixed, 0, (size_t)c->O * sizeof *c->fixed);
    for (int p = 0; p < TG_DIGITS; p++)
        for (int o = 0; o < c->O; o++) {
            const float *w = e->w[0] + (int64_t)o * c->wide + c->column + p * c->D;
            for (int v = 0; v < TG_DIGIT_ROWS; v++) {
                float sum = 0;
                for (int d = 0; d < c->D; d++) sum += w[d] * e->w[2][v * c->D + d];
                c->table[(int64_t)(p * TG_DIGIT_ROWS + v) * c->O + o] = sum;
                if (v == 0) c->fixed[o] += sum;
            }
        }
}

static const int8_t *digits_of(const tg_exec *e, int32_t k) {
    return e->slate->digits + (int64_t)k * TG_DIGITS;
}

static void forward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const context *c = context_;
    const int C = e->slate->C, O = c->O;
    (void)scratch;
    for (int64_t i = begin; i < end; i++) {
        const int32_t k = e->slate->config_of[i];
        float *base = c->base + i * O, *y = e->y + i * C * O;
        if (k >= 0) {
            e->k->lookup(C, O, base, c->table, digits_of(e, k), (int64_t)e->slate->K * TG_DIGITS, y);
        } else {
            for (int o = 0; o < O; o++) base[o] += c->fixed[o];
            for (int r = 0; r < C; r++) memcpy(y + (int64_t)r * O, base, (size_t)O * sizeof *y);
        }
        if (e->y_stats != NULL)
            tg_stats_tile(e->k, c->partials + chunk * c->stride, (int64_t)C * O, y, i == begin);
    }
}

static void forward(const tg_exec *e) {
    context c = make_context(e, 0);
    const int rest = c.F - c.column;
    build_table(e, &c);
    e->k->pack_nt(c.O, c.column, e->w[0], c.wide, c.packed);
    e->k->pack_nt(c.O, rest, e->w[0] + c.wide - rest, c.wide, c.packed_rest);
    e->k->gemm(e->slate->N, c.O, c.column, e->x[0], c.F, c.packed, c.base, c.O, e->w[1], 0);
    e->k->gemm(e->slate->N, c.O, rest, e->x[0] + c.column, c.F, c.packed_rest, c.base, c.O, NULL, 1);
    tg_run_chunks(e, c.loop, 20.0 * (double)c.loop.items * e->slate->C * c.O, forward_chunk, &c);
    if (e->y_stats != NULL) tg_stats_finish(c.loop, (int64_t)e->slate->C * c.O, c.partials, e->y_stats);
}

static void backward_chunk(const tg_exec *e, void *context_, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const context *c = context_;
    const int C = e->slate->C, O = c->O;
    const int64_t stride = (int64_t)e->slate->K * TG_DIGITS;
    float *dtable = c->partials + chunk * c->stride, *dfixed = dtable + (int64_t)ENTRIES * O;
    (void)scratch;
    memset(dtable, 0, (size_t)c->stride * sizeof *dtable);
    for (int64_t i = begin; i < end; i++) {
        const int32_t k = e->slate->config_of[i];
        const float *dy = e->dy + i * C * O;
        float *dbase = c->base + i * O;
        memset(dbase, 0, (size_t)O * sizeof *dbase);
        e->k->add_rows(C, O, dy, O, dbase);
        if (k < 0) {
            e->k->add_rows(1, O, dbase, O, dfixed);
            continue;
        }
        e->k->lookup_grad(C, O, dy, digits_of(e, k), stride, dtable);
        if (e->ddigits == NULL) continue;
        for (int r = 0; r < C; r++)
            for (int t = 0; t < ENTRIES; t++) {
                float dot = 0;
                for (int o = 0; o < O; o++) dot += dy[(int64_t)r * O + o] * c->table[(int64_t)t * O + o];
                e->ddigits[((int64_t)r * e->slate->K + k) * ENTRIES + t] = dot;
            }
    }
}

/* From dT: dweight[o][column + p D + d] = sum_v dT[p][v][o] table[v][d]; dtable[v][d] = sum_p,o dT[p][v][o]
 * weight */
static void config_gradients(const tg_exec *e, const context *c, float *dw, float *dtable) {
    for (int p = 0; p < TG_DIGITS; p++)
        for (int v = 0; v < TG_DIGIT_ROWS; v++) {
            const float *dt = c->dtable + (int64_t)(p * TG_DIGIT_ROWS + v) * c->O;
            for (int o = 0; o < c->O; o++) {
                const int64_t at = (int64_t)o * c->wide + c->column + p * c->D;
                for (int d = 0; d < c->D; d++) {
                    dw[at + d] += dt[o] * e->w[2][v * c->D + d];
                    dtable[v * c->D + d] += dt[o] * e->w[0][at + d];
                }
            }
        }
}

static void backward(const tg_exec *e) {
    context c = make_context(e, 1);
    const int N = e->slate->N, O = c.O, rest = c.F - c.column;
    if (e->ddigits != NULL) build_table(e, &c);
    tg_run_chunks(e, c.loop, 20.0 * (double)c.loop.items * e->slate->C * O, backward_chunk, &c);
    tg_sum_partials(c.loop.chunks, (int64_t)(ENTRIES + 1) * O, c.partials, c.stride, c.dtable, 0);
    for (int p = 0; p < TG_DIGITS; p++) /* nodes that are not configurable use row 0 of every table */
        e->k->add_rows(1, O, c.dtable + (int64_t)ENTRIES * O, O, c.dtable + (int64_t)p * TG_DIGIT_ROWS * O);
    if (!e->dw_add[0]) memset(e->dw[0], 0, (size_t)O * (size_t)c.wide * sizeof(float));
    if (!e->dw_add[1]) memset(e->dw[1], 0, (size_t)O * sizeof(float));
    if (!e->dw_add[2]) memset(e->dw[2], 0, (size_t)TG_DIGIT_ROWS * (size_t)c.D * sizeof(float));
    config_gradients(e, &c, e->dw[0], e->dw[2]);
    e->k->add_rows(N, O, c.base, O, e->dw[1]);
    e->k->gemm_tn(N, O, c.column, c.base, O, e->x[0], c.F, e->dw[0], c.wide);
    e->k->gemm_tn(N, O, rest, c.base, O, e->x[0] + c.column, c.F, e->dw[0] + c.wide - rest, c.wide);
    if (e->dx[0] == NULL) return;
    for (int part = 0; part < 2; part++) { /* the columns before and after the config's */
        const int n = part == 0 ? c.column : rest, at = part == 0 ? 0 : c.column;
        const float *w = part == 0 ? e->w[0] : e->w[0] + c.wide - rest;
        float *packed = part == 0 ? c.packed : c.packed_rest;
        e->k->pack_nn(n, O, w, c.wide, packed);
        e->k->gemm(N, n, O, c.base, O, packed, e->dx[0] + at, c.F, NULL, e->dx_add[0]);
    }
}

const tg_op tg_op_config_linear = {
    .name = "config_linear",
    .min_in = 1,
    .max_in = 1,
    .wants_table = 2,
    .attrs = {{"out", 1, NULL, 0},
              {"column", 0, NULL, 0},
              {"cols", 4, NULL, 0},
              {"stats", 0, NULL, 0},
              {"init", 0, "default|xavier", 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
