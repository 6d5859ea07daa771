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
    p->recompute = 1;
    return TG_OK;
}

/* Where everything is. The weight's columns before (first) and after (rest) the config's are apart. */
typedef struct room {
    int F, O, D, column, rest, wide;
    float *wt;           /* (18 D,O) config columns of the weight */
    float *table;        /* (18,8,O) */
    float *fixed;        /* (O) sum of the tables' row 0 */
    float *base;         /* (N,O); backward: sum of dy over configs */
    float *first, *last; /* packed: forward B(F -> O), backward B(O -> F) */
    float *dtable;       /* backward: (18,8,O) and (O) of the nodes that are not configurable */
    float *dwt;          /* backward: (18 D,O) gradient of wt */
    int64_t shared;      /* floats */
} room;

static room rooms(const tg_exec *e, int back) {
    room r = {.F = e->in[0].cols, .O = e->out.cols, .D = e->table_cols, .column = (int)e->attr[COLUMN]};
    r.rest = r.F - r.column;
    r.wide = r.F + TG_DIGITS * r.D;
    const int64_t columns = (int64_t)TG_DIGITS * r.D * r.O;
    const int64_t sizes[] = {columns,
                             (int64_t)ENTRIES * r.O,
                             r.O,
                             (int64_t)e->slate->N * r.O,
                             back ? tg_packed(e->k, r.column, r.O) : tg_packed(e->k, r.O, r.column),
                             back ? tg_packed(e->k, r.rest, r.O) : tg_packed(e->k, r.O, r.rest),
                             back ? (int64_t)(ENTRIES + 1) * r.O : 0,
                             back ? columns : 0};
    float **parts[] = {&r.wt, &r.table, &r.fixed, &r.base, &r.first, &r.last, &r.dtable, &r.dwt};
    for (int i = 0; i < 8; r.shared += sizes[i++])
        *parts[i] = e->shared == NULL ? NULL : e->shared + r.shared;
    return r;
}

/* Partial of backward: dtable as above, then the weight's gradient but for the config columns, and the bias's. */
static tg_sizes sizes(const tg_exec *e, int back) {
    const room r = rooms(e, back);
    const double rows = (double)tg_rows(e->slate, TG_SPACE_NODE_CONFIG);
    return (tg_sizes){r.shared, back ? (int64_t)(ENTRIES + 1 + r.wide + 1) * r.O : tg_stats_floats(e), r.O,
                      20 * rows * r.O};
}

/* The tables and the sum of their rows 0 */
static void build_table(const tg_exec *e, const room *r) {
    e->k->digit_table(r->O, r->D, r->wt, e->w[2], r->table);
    memset(r->fixed, 0, (size_t)r->O * sizeof *r->fixed);
    e->k->add_rows(TG_DIGITS, r->O, r->table, (int64_t)TG_DIGIT_ROWS * r->O, r->fixed);
}

static void begin(const tg_exec *e, int back) {
    const room r = rooms(e, back);
    e->k->turn(r.O, TG_DIGITS * r.D, e->w[0] + r.column, r.wide, r.wt, r.O, 0);
    if (!back || e->ddigits != NULL) build_table(e, &r);
    if (back) return;
    const float *x = e->x[0], *late = e->w[0] + r.wide - r.rest;
    tg_pack(e, 0, r.O, r.column, e->w[0], r.wide, r.first);
    tg_pack(e, 0, r.O, r.rest, late, r.wide, r.last);
    tg_gemm_rows(e, e->slate->N, r.O, r.column, x, r.F, r.first, r.base, r.O, e->w[1], 0);
    tg_gemm_rows(e, e->slate->N, r.O, r.rest, x + r.column, r.F, r.last, r.base, r.O, NULL, 1);
}

/* Digits of config `from` at configurable node k. */
static const int8_t *digits_of(const tg_exec *e, int32_t k, int from) {
    return e->slate->digits + ((int64_t)from * e->slate->K + k) * TG_DIGITS;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room r = rooms(e, 0);
    const int C = e->slate->C, O = r.O;
    float *plain = tg_scratch(e, t);
    for (int at = 0; at < t->rows; at += C) {
        const int64_t node = t->item + at / C;
        const int32_t k = e->slate->config_of[node];
        const int rows = t->rows - at < C ? t->rows - at : C;
        const float *base = r.base + node * O;
        float *to = y + (int64_t)at * O;
        if (k >= 0) {
            e->k->lookup(rows, O, base, r.table, digits_of(e, k, t->from), (int64_t)e->slate->K * TG_DIGITS,
                         to);
            continue;
        }
        for (int o = 0; o < O; o++) plain[o] = base[o] + r.fixed[o];
        for (int row = 0; row < rows; row++) memcpy(to + (int64_t)row * O, plain, (size_t)O * sizeof *to);
    }
    tg_stats_tile(e, t, y);
}

/* ddigits of `rows` configs from `from` on at configurable node k: dy . T[digit][value] */
static void digit_gradient(const tg_exec *e, const room *r, int32_t k, int from, int rows, const float *dy) {
    for (int row = 0; row < rows; row++, dy += r->O)
        for (int entry = 0; entry < ENTRIES; entry++) {
            float dot = 0;
            for (int o = 0; o < r->O; o++) dot += dy[o] * r->table[(int64_t)entry * r->O + o];
            e->ddigits[((int64_t)(from + row) * e->slate->K + k) * ENTRIES + entry] = dot;
        }
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room r = rooms(e, 1);
    const int C = e->slate->C, O = r.O;
    const int64_t tables = (int64_t)(ENTRIES + 1) * O, weights = (int64_t)O * r.wide;
    float *dtable = tg_share(e, t, 0, tables, r.dtable, 0), *dfixed = dtable + (int64_t)ENTRIES * O;
    float *dw = tg_share(e, t, tables, weights, e->dw[0], e->dw_add[0]);
    float *db = tg_share(e, t, tables + weights, O, e->dw[1], e->dw_add[1]);
    dy = tg_dy(e, t, dy);
    for (int at = 0; at < t->rows; at += C) {
        const int64_t node = t->item + at / C;
        const int32_t k = e->slate->config_of[node];
        const int rows = t->rows - at < C ? t->rows - at : C;
        const float *d = dy + (int64_t)at * O;
        float *dbase = r.base + node * O;
        if (t->from == 0) memset(dbase, 0, (size_t)O * sizeof *dbase);
        e->k->add_rows(rows, O, d, O, dbase);
        if (k < 0) {
            if (t->from + rows == C) e->k->add_rows(1, O, dbase, O, dfixed);
            continue;
        }
        e->k->lookup_grad(rows, O, d, digits_of(e, k, t->from), (int64_t)e->slate->K * TG_DIGITS, dtable);
        if (e->ddigits != NULL) digit_gradient(e, &r, k, t->from, rows, d);
    }
    if (!t->last) return;
    const int nodes = (int)(t->chunk_end - t->chunk_begin);
    const float *dbase = r.base + t->chunk_begin * O, *x = e->x[0] + t->chunk_begin * r.F;
    e->k->gemm_tn(nodes, O, r.column, dbase, O, x, r.F, dw, r.wide);
    e->k->gemm_tn(nodes, O, r.rest, dbase, O, x + r.column, r.F, dw + r.wide - r.rest, r.wide);
    e->k->add_rows(nodes, O, dbase, O, db);
}

static void input_gradient(const tg_exec *e, const room *r) {
    for (int part = 0; part < 2; part++) {
        const int n = part == 0 ? r->column : r->rest, at = part == 0 ? 0 : r->column;
        const float *w = part == 0 ? e->w[0] : e->w[0] + r->wide - r->rest;
        float *packed = part == 0 ? r->first : r->last;
        tg_pack(e, 1, n, r->O, w, r->wide, packed);
        tg_gemm_rows(e, e->slate->N, n, r->O, r->base, r->O, packed, e->dx[0] + at, r->F, NULL, e->dx_add[0]);
    }
}

static void end(const tg_exec *e, int back) {
    if (!back) {
        tg_stats_end(e);
        return;
    }
    const room r = rooms(e, 1);
    const int O = r.O;
    const int64_t tables = (int64_t)(ENTRIES + 1) * O, weights = (int64_t)O * r.wide;
    tg_sum_shares(e, 0, tables, r.dtable);
    tg_sum_shares(e, tables, weights, e->dw[0]);
    tg_sum_shares(e, tables + weights, O, e->dw[1]);
    for (int p = 0; p < TG_DIGITS; p++) /* nodes that are not configurable use row 0 of every table */
        e->k->add_rows(1, O, r.dtable + (int64_t)ENTRIES * O, O, r.dtable + (int64_t)p * TG_DIGIT_ROWS * O);
    if (!e->dw_add[2]) memset(e->dw[2], 0, (size_t)TG_DIGIT_ROWS * (size_t)r.D * sizeof(float));
    e->k->digit_table_grad(O, r.D, r.dtable, r.wt, e->w[2], r.dwt, e->dw[2]);
    e->k->turn(TG_DIGITS * r.D, O, r.dwt, O, e->dw[0] + r.column, r.wide, 1); /* to what was there before */
    if (e->dx[0] != NULL) input_gradient(e, &r);
}

const tg_op tg_op_config_linear = {
    .name = "config_linear",
    .min_in = 1,
    .max_in = 1,
    .wants_table = 2,
    .fixes_dy = TG_FIXED_IN_TILES,
    .attrs = {{"out", 1, NULL, 0},
              {"column", 0, NULL, 0},
              {"cols", 4, NULL, 0},
              {"stats", 0, NULL, 0},
              {"init", 0, "default|xavier", 0}},
    .plan = plan,
    .sizes = sizes,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .end = end,
};
