/* The first layer, factorised exactly into a part per graph and table look-ups.
   Per node and config the input row would be [h(N,F)[:column] | 18 digits x embedding(D) | h[column:]] and
   y = row . weight(O, F + 18 D)^T + bias(O). Instead: base(N,O) = h . [weight without the config columns]^T +
   bias once per graph, T(18,8,O) = weight's config columns times the embedding table (8,D), and y(n,c) =
   base(n) + sum_p T[p][digit + 2] at configurable nodes, + sum_p T[p][0] ("not configurable") elsewhere.
   Rows h(K,F) of the configurable nodes alone give y(K,C,O). Digits as numbers are an embedding with one fixed
   column: the digit plus a shift times a scale, and 0 where nothing is configurable. With `learn_scale` the P digits of a node
   have a learnt factor each, with which their columns of the weight are multiplied. */
#include "ops/op.h"

#include <string.h>

enum { WEIGHT, BIAS, TABLE, DIGIT_SCALE };
enum { EMBEDDED, NUMBERS };

typedef struct attrs {
    int out, column, cols, stats, init, values, learn_scale, use_bias;
    double scale, shift;
} attrs;

/* Columns of a digit. */
static int columns_of(const attrs *a, int embedded) { return a->values == NUMBERS ? 1 : embedded; }

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int O = a->out, F = p->in[0].cols, D = columns_of(a, tg_shared_cols(p, "table", a->cols));
    const int nodes = p->in[0].space == TG_SPACE_NODE;
    if (p->digit_cols < 1) return tg_fail(err, TG_E_RECIPE, "the graphs have no config digits");
    if (a->column > F) return tg_fail(err, TG_E_RECIPE, "column must be in 0..%d, got %d", F, a->column);
    p->out = (tg_shape){nodes ? TG_SPACE_NODE_CONFIG : TG_SPACE_CONFIG_NODE_CONFIG, O};
    p->makes_stats = a->stats;
    if (p->makes_stats && !nodes) return tg_fail(err, TG_E_RECIPE, "stats needs rows of nodes");
    if (a->learn_scale && a->values != NUMBERS)
        return tg_fail(err, TG_E_RECIPE, "learn_scale is of digits as numbers: it needs values=numbers");
    if (a->shift != 0 && a->values != NUMBERS)
        return tg_fail(err, TG_E_RECIPE, "shift is of digits as numbers: it needs values=numbers");
    tg_add_linear(p, WEIGHT, O, F + p->digit_cols * D, a->init);
    if (!a->use_bias) p->params[BIAS] = (tg_param_spec){.name = NULL};
    if (a->learn_scale)
        p->params[DIGIT_SCALE] = (tg_param_spec){NULL, p->digit_cols, 0, TG_INIT_CONSTANT, (float)a->scale};
    p->params[TABLE] = (tg_param_spec){NULL, p->digit_rows, D, TG_INIT_NORMAL, 1.0f};
    p->needs_in = 1;
    p->recompute = 1;
    return TG_OK;
}

/* Where everything is. The weight's columns before (first) and after (rest) the config's are apart. N rows of h;
   P digits per cell, V values each, P V entries of the table. */
typedef struct room {
    int64_t N;
    int F, O, D, P, V, column, rest, wide;
    float *numbers;          /* (V), of digits as numbers: the embedding; else NULL, as */
    float *dnumbers;         /* (V), backward: its gradient, which nobody asks for */
    float *wt;               /* (P D,O) config columns of the weight */
    float *table;            /* (P,V,O) */
    float *fixed;            /* (O) sum of the tables' row 0 */
    float *base;             /* (N,O); backward: sum of dy over configs */
    float *first, *last;     /* packed: forward B(F -> O), backward B(O -> F) */
    float *dtable;           /* backward: (P,V,O) and (O) of the nodes that are not configurable */
    float *dwt;              /* backward: (P D,O) gradient of wt */
    float *tables, *dw, *db; /* backward, of a chunk: as dtable; weight but for the config columns; bias */
    float *plain;            /* of a thread: (O) */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r = (room){.N = tg_items(e->slate, e->out.space),
                .F = e->in[0].cols,
                .O = e->out.cols,
                .D = columns_of(a, e->params[TABLE].cols),
                .P = e->slate->digit_cols,
                .V = e->slate->digit_rows,
                .column = a->column};
    const int64_t columns = (int64_t)r->P * r->D * r->O, tables = ((int64_t)r->P * r->V + 1) * r->O;
    r->rest = r->F - r->column;
    r->wide = r->F + r->P * r->D;
    c->work += 20 * (double)tg_rows(e->slate, e->out.space) * r->O;
    if (a->values == NUMBERS) r->numbers = tg_carve(c, TG_SHARED, r->V);
    r->wt = tg_carve(c, TG_SHARED, columns);
    r->table = tg_carve(c, TG_SHARED, (int64_t)r->P * r->V * r->O);
    r->fixed = tg_carve(c, TG_SHARED, r->O);
    r->base = tg_carve(c, TG_SHARED, r->N * r->O);
    r->first =
        tg_carve(c, TG_SHARED, back ? tg_packed(e->k, r->column, r->O) : tg_packed(e->k, r->O, r->column));
    r->last = tg_carve(c, TG_SHARED, back ? tg_packed(e->k, r->rest, r->O) : tg_packed(e->k, r->O, r->rest));
    r->plain = tg_carve(c, TG_SCRATCH, r->O);
    if (!back) return;
    if (a->values == NUMBERS) r->dnumbers = tg_carve(c, TG_SHARED, r->V);
    r->dtable = tg_carve(c, TG_SHARED, tables);
    r->dwt = tg_carve(c, TG_SHARED, columns);
    r->tables = tg_carve(c, TG_PARTIAL, tables);
    r->dw = tg_carve(c, TG_PARTIAL, (int64_t)r->O * r->wide);
    r->db = tg_carve(c, TG_PARTIAL, r->O);
}

/* (V,D): what a digit stands for */
static const float *embedding(const tg_exec *e, const room *r) {
    return r->numbers != NULL ? r->numbers : e->w[TABLE];
}

/* The config columns of the weight, by digit, times the learnt factors; and the numbers. */
static void turn_weight(const tg_exec *e, const room *r) {
    const attrs *a = e->attrs;
    const double scale = e->w[DIGIT_SCALE] != NULL ? 1.0 : a->scale;
    e->k->turn(r->O, r->P * r->D, e->w[WEIGHT] + r->column, r->wide, r->wt, r->O, 0);
    if (e->w[DIGIT_SCALE] != NULL) e->k->scale_rows(r->P, r->O, r->wt, r->O, e->w[DIGIT_SCALE], r->wt, r->O);
    for (int v = 0; r->numbers != NULL && v < r->V; v++)
        r->numbers[v] = v == 0 ? 0.0f : (float)(scale * (v - 2 + a->shift));
}

/* The tables and the sum of their rows 0 */
static void build_table(const tg_exec *e, const room *r) {
    e->k->digit_table(r->P, r->V, r->O, r->D, r->wt, embedding(e, r), r->table);
    memset(r->fixed, 0, (size_t)r->O * sizeof *r->fixed);
    e->k->add_rows(r->P, r->O, r->table, (int64_t)r->V * r->O, r->fixed);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    turn_weight(e, r);
    build_table(e, r);
    const float *x = e->x[0], *late = e->w[WEIGHT] + r->wide - r->rest;
    tg_pack(e, 0, r->O, r->column, e->w[WEIGHT], r->wide, r->first);
    tg_pack(e, 0, r->O, r->rest, late, r->wide, r->last);
    tg_gemm_rows(e, r->N, r->O, r->column, x, r->F, r->first, r->base, r->O, e->w[BIAS], 0);
    tg_gemm_rows(e, r->N, r->O, r->rest, x + r->column, r->F, r->last, r->base, r->O, NULL, 1);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    turn_weight(e, r);
    if (e->ddigits != NULL) build_table(e, r);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const int C = e->slate->C, O = r->O;
    float *plain = tg_of_thread(e, t, r->plain);
    for (int at = 0; at < t->rows; at += C) {
        const int64_t node = t->item + at / C;
        const int32_t k = tg_config_position(e, node);
        const int rows = t->rows - at < C ? t->rows - at : C;
        const float *base = r->base + node * O;
        float *to = y + (int64_t)at * O;
        if (k >= 0) {
            e->k->lookup(r->P, r->V, rows, O, base, r->table, tg_digits_at(e->slate, k, t->from),
                         (int64_t)e->slate->K * r->P, to);
            continue;
        }
        for (int o = 0; o < O; o++) plain[o] = base[o] + r->fixed[o];
        for (int row = 0; row < rows; row++) memcpy(to + (int64_t)row * O, plain, (size_t)O * sizeof *to);
    }
    tg_stats_tile(e, t, y);
}

/* ddigits of `rows` configs from `from` on at configurable node k: dy . T[digit][value] */
static void digit_gradient(const tg_exec *e, const room *r, int32_t k, int from, int rows, const float *dy) {
    const int entries = r->P * r->V;
    for (int row = 0; row < rows; row++, dy += r->O) {
        float *to = e->ddigits + ((int64_t)(from + row) * e->slate->K + k) * entries;
        for (int entry = 0; entry < entries; entry++) {
            float dot = 0;
            for (int o = 0; o < r->O; o++) dot += dy[o] * r->table[(int64_t)entry * r->O + o];
            to[entry] = e->ddigits_add ? to[entry] + dot : dot;
        }
    }
}

/* The chunk's nodes are through: their sums of dy over configs meet the inputs. */
static void end_chunk(const tg_exec *e, const tg_tile *t, const room *r) {
    const int nodes = (int)(t->chunk_end - t->chunk_begin), O = r->O;
    const float *dbase = r->base + t->chunk_begin * O, *x = e->x[0] + t->chunk_begin * r->F;
    float *dw = t->chunk == 0 ? e->dw[WEIGHT] : tg_of_chunk(e, t, r->dw);
    e->k->gemm_tn(nodes, O, r->column, dbase, O, x, r->F, dw, r->wide);
    e->k->gemm_tn(nodes, O, r->rest, dbase, O, x + r->column, r->F, dw + r->wide - r->rest, r->wide);
    if (e->dw[BIAS] != NULL)
        e->k->add_rows(nodes, O, dbase, O, t->chunk == 0 ? e->dw[BIAS] : tg_of_chunk(e, t, r->db));
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int C = e->slate->C, O = r->O, weights = e->dw[WEIGHT] != NULL;
    const int64_t entries = (int64_t)r->P * r->V * O;
    float *dtable = tg_share(e, t, r->tables, entries + O, r->dtable, 0), *dfixed = dtable + entries;
    if (weights) {
        tg_share_dw(e, t, r->dw, WEIGHT);
        tg_share_dw(e, t, r->db, BIAS);
    }
    dy = tg_dy(e, t, dy);
    for (int at = 0; at < t->rows; at += C) {
        const int64_t node = t->item + at / C;
        const int32_t k = tg_config_position(e, node);
        const int rows = t->rows - at < C ? t->rows - at : C;
        const float *d = dy + (int64_t)at * O;
        float *dbase = r->base + node * O;
        if (t->from == 0) memset(dbase, 0, (size_t)O * sizeof *dbase);
        e->k->add_rows(rows, O, d, O, dbase);
        if (k < 0) {
            if (t->from + rows == C) e->k->add_rows(1, O, dbase, O, dfixed);
            continue;
        }
        if (weights)
            e->k->lookup_grad(r->P, r->V, rows, O, d, tg_digits_at(e->slate, k, t->from),
                              (int64_t)e->slate->K * r->P, dtable);
        if (e->ddigits != NULL) digit_gradient(e, r, k, t->from, rows, d);
    }
    if (t->last && weights) end_chunk(e, t, r);
}

static void input_gradient(const tg_exec *e, const room *r) {
    for (int part = 0; part < 2; part++) {
        const int n = part == 0 ? r->column : r->rest, at = part == 0 ? 0 : r->column;
        const float *w = part == 0 ? e->w[WEIGHT] : e->w[WEIGHT] + r->wide - r->rest;
        float *packed = part == 0 ? r->first : r->last;
        tg_pack(e, 1, n, r->O, w, r->wide, packed);
        tg_gemm_rows(e, r->N, n, r->O, r->base, r->O, packed, e->dx[0] + at, r->F, NULL, e->dx_add[0]);
    }
}

/* dwt is the gradient of the scaled weight: what of it is the factors', and what the weight's. */
static void scale_gradient(const tg_exec *e, const room *r) {
    const float *w = e->w[WEIGHT] + r->column;
    for (int p = 0; p < r->P; p++) {
        double dot = e->dw_add[DIGIT_SCALE] ? (double)e->dw[DIGIT_SCALE][p] : 0;
        for (int o = 0; o < r->O; o++)
            dot += (double)r->dwt[(int64_t)p * r->O + o] * (double)w[(int64_t)o * r->wide + p];
        e->dw[DIGIT_SCALE][p] = (float)dot;
    }
    e->k->scale_rows(r->P, r->O, r->dwt, r->O, e->w[DIGIT_SCALE], r->dwt, r->O);
}

static void weight_gradients(const tg_exec *e, const room *r) {
    const int O = r->O;
    const int64_t entries = (int64_t)r->P * r->V * O;
    tg_sum_shares(e, r->tables, entries + O, r->dtable, 0);
    tg_sum_dw(e, r->dw, WEIGHT);
    tg_sum_dw(e, r->db, BIAS);
    for (int p = 0; p < r->P; p++) /* nodes that are not configurable use row 0 of every table */
        e->k->add_rows(1, O, r->dtable + entries, O, r->dtable + (int64_t)p * r->V * O);
    float *dvalues = r->dnumbers != NULL ? r->dnumbers : e->dw[TABLE];
    if (r->dnumbers != NULL || !e->dw_add[TABLE])
        memset(dvalues, 0, (size_t)r->V * (size_t)r->D * sizeof *dvalues);
    e->k->digit_table_grad(r->P, r->V, O, r->D, r->dtable, r->wt, embedding(e, r), r->dwt, dvalues);
    if (e->w[DIGIT_SCALE] != NULL) scale_gradient(e, r);
    e->k->turn(r->P * r->D, O, r->dwt, O, e->dw[WEIGHT] + r->column, r->wide,
               1); /* to what was there before */
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    if (e->dw[WEIGHT] != NULL) weight_gradients(e, r);
    if (e->dx[0] != NULL) input_gradient(e, r);
}

const tg_op tg_op_config_linear = {
    .name = "config_linear",
    .doc =
        "Linear layer over a node's columns and the digits of its config, embedded or plain, factorised into "
        "look-ups; of all nodes or of the configurable ones. Columns of the weight: those of h before "
        "`column`, "
        "those of the first digit, of the second and so on, the other ones of h.",
    .inputs = {{"h", TG_IN(NODE) | TG_IN(CONFIG_NODE), 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias", [TABLE] = "table", [DIGIT_SCALE] = "digit_scale"},
    .attrs = TG_ATTRS(
        TG_INT(attrs, out, 1, 1, 65536, "columns of the result"),
        TG_INT(attrs, column, 0, 0, 65536, "column of h before which the digits stand"),
        TG_INT(attrs, cols, 4, 1, 4096, "columns of the digits' embedding, unless it is shared"),
        TG_CHOICE_WITH(attrs, values, EMBEDDED, "embedded|numbers",
                       "what a digit stands for: its row of a table, or itself", "embedded", "table"),
        TG_REAL(attrs, scale, 1, 1e-6, 1e6,
                "factor of digits as numbers; its initial value, if it is learnt"),
        TG_REAL(attrs, shift, 0, -1e6, 1e6,
                "numbers: what is added to the digits before, where nodes are configurable"),
        TG_FLAG(attrs, learn_scale, "numbers: every digit of a node has a learnt factor, digit_scale"),
        TG_FLAG(attrs, stats, "keep norm statistics of the result"),
        TG_CHOICE(attrs, init, 0, TG_LINEAR_INITS, TG_LINEAR_INITS_DOC),
        TG_FLAG_ON(attrs, use_bias, "there is a bias")),
    .flags = TG_NEEDS_DIGITS,
    .fixes_dy = TG_FIXED_IN_TILES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
