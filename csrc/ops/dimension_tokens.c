/* One token per dimension of the tensors of a configurable node, made once for every unique cell: y(U, T W).

   The D digits of a cell are S = D / T layouts of T digits, one per tensor; a layout lists dimensions, most minor first. The
   position of dimension t in a layout is 1 + the first place whose digit is t, or 0 if none is. Token t of a cell is
   act(weight(W,G) f + bias(W) + sum over tensors s of position[s (T + 1) + position of t in layout s]),
   f(G) being columns column + g step + t of x at the cell's node (its sizes, say). In other words: one linear layer over
   the features of a dimension and the one-hot positions of it. Where x is not
   node_feat, cells of different nodes are never equal.

   The gradient per digit is that of the sum above, in which a digit counts through its one-hot vector: the change of z when
   that place lists t and no longer does not. It is written to the first of equal cells; 0 elsewhere. */
#include "features/schema.h"
#include "ops/act.h"

#include <string.h>

enum { POSITION, BIAS, WEIGHT, SLOPE };

typedef struct attrs {
    int tokens, cols, act, per_column, column, groups, step;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int T = a->tokens, last = a->column + (a->groups - 1) * a->step + T;
    if (p->digit_cols < 1 || p->digit_cols % T != 0)
        return tg_fail(err, TG_E_RECIPE, "%d digit%s cannot be cut into layouts of %d", p->digit_cols,
                       TG_S(p->digit_cols), T);
    if (p->n_in == 1 && last > p->in[0].cols)
        return tg_fail(err, TG_E_RECIPE, "reads columns %d..%d of x, which has %d", a->column, last - 1,
                       p->in[0].cols);
    p->out = (tg_shape){TG_SPACE_UNIQUE, T * a->cols};
    const int G = p->n_in == 1 ? a->groups : 0, rows = p->digit_cols / T * (T + 1), wide = G + rows;
    p->params[POSITION] = tg_weight(rows, a->cols, wide);
    p->params[BIAS] = tg_weight(a->cols, 0, wide);
    if (G > 0) p->params[WEIGHT] = tg_weight(a->cols, G, wide);
    p->params[SLOPE] = tg_act_slope(a->cols, a->per_column);
    p->needs_in = p->n_in == 1;
    return TG_OK;
}

typedef struct room {
    int T, W, S, G;
    tg_act act;                         /* of one token */
    float *packed, *turned;             /* weight */
    float *f, *z;                       /* of a thread: features (T,G) and sums (T,W) of one cell */
    float *dz, *df;                     /* backward, of a thread: (T,W); of the call: (U,T,G) */
    float *dposition, *dbias, *dweight; /* backward, of a chunk */
    float *table, *dots;                /* backward: packed position; of a thread: (T, its rows) */
} room;

/* Rows of position. */
static int positions(const room *r) { return r->S * (r->T + 1); }

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r =
        (room){.T = a->tokens, .W = a->cols, .S = e->slate->digit_cols / a->tokens, .G = e->n_in * a->groups};
    c->work += (back ? 6.0 : 2.0) * e->slate->U * r->T * r->W * (r->S + r->G);
    tg_act_carve(e, back, c, a->act, SLOPE, r->W, &r->act);
    r->z = tg_carve(c, TG_SCRATCH, (int64_t)r->T * r->W);
    if (r->G > 0) {
        r->packed = tg_carve(c, TG_SHARED, tg_packed(e->k, r->W, r->G));
        r->f = tg_carve(c, TG_SCRATCH, (int64_t)r->T * r->G);
    }
    if (!back) return;
    r->dz = tg_carve(c, TG_SCRATCH, (int64_t)r->T * r->W);
    r->table = tg_carve(c, TG_SHARED, tg_packed(e->k, positions(r), r->W));
    r->dots = tg_carve(c, TG_SCRATCH, (int64_t)r->T * positions(r));
    r->dposition = tg_carve(c, TG_PARTIAL, (int64_t)positions(r) * r->W);
    r->dbias = tg_carve(c, TG_PARTIAL, r->W);
    if (r->G == 0) return;
    r->turned = tg_carve(c, TG_SHARED, tg_packed(e->k, r->G, r->W));
    r->dweight = tg_carve(c, TG_PARTIAL, (int64_t)r->W * r->G);
    r->df = tg_carve(c, TG_SHARED, (int64_t)e->slate->U * r->T * r->G);
}

/* The digits of unique cell u, and its node. */
static const int8_t *cell(const tg_exec *e, int64_t u, int32_t *node) {
    const tg_slate *s = e->slate;
    const int32_t at = s->unique_at[u], k = at / s->C, c = at % s->C;
    *node = s->config_node[k];
    return tg_digits_at(s, k, c);
}

/* The first place from `from` on that lists dimension t, counted from 1, or 0 */
static int position(const int8_t *layout, int T, int t, int from) {
    for (int i = from; i < T; i++)
        if (layout[i] == t) return i + 1;
    return 0;
}

static const float *table(const tg_exec *e, const room *r, int s, int at) {
    return e->w[POSITION] + ((int64_t)s * (r->T + 1) + at) * r->W;
}

/* z(T,W) of one cell, and its features f(T,G) */
static void make(const tg_exec *e, const room *r, int64_t u, float *f, float *z) {
    const attrs *a = e->attrs;
    int32_t node;
    const int8_t *digits = cell(e, u, &node);
    if (r->G > 0) {
        const float *x = e->x[0] + (int64_t)node * e->in[0].cols + a->column;
        for (int t = 0; t < r->T; t++)
            for (int g = 0; g < r->G; g++) f[t * r->G + g] = x[g * a->step + t];
        e->k->gemm(r->T, r->W, r->G, f, r->G, r->packed, z, r->W, e->w[BIAS], 0);
    }
    for (int t = 0; t < r->T; t++, z += r->W) {
        if (r->G == 0) memcpy(z, e->w[BIAS], (size_t)r->W * sizeof *z);
        for (int s = 0; s < r->S; s++)
            e->k->add_rows(1, r->W, table(e, r, s, position(digits + s * r->T, r->T, t, 0)), 0, z);
    }
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_begin(e, &r->act);
    if (r->G > 0) tg_pack(e, 0, r->W, r->G, e->w[WEIGHT], r->G, r->packed);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    float *f = r->G > 0 ? tg_of_thread(e, t, r->f) : NULL;
    for (int64_t u = t->row; u < t->row + t->rows; u++, y += e->out.cols) {
        make(e, r, u, f, y);
        if (r->act.kind != TG_ACT_NONE) tg_act_forward(e, &r->act, r->T, y, y);
    }
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const size_t entries = (size_t)e->slate->C * (size_t)e->slate->K * (size_t)e->slate->digit_cols;
    begin(e);
    if (r->G > 0) tg_pack(e, 1, r->G, r->W, e->w[WEIGHT], r->G, r->turned);
    if (e->ddigits != NULL) tg_pack(e, 0, positions(r), r->W, e->w[POSITION], r->W, r->table);
    if (e->ddigits != NULL && !e->ddigits_add)
        memset(e->ddigits, 0, entries * (size_t)e->slate->digit_rows * sizeof *e->ddigits);
}

/* Place i of layout s lists t, or does not: the difference, unless an earlier place lists t anyway. */
static void digit_gradient(const tg_exec *e, const room *r, int64_t u, const float *dz, float *dots) {
    int32_t node;
    const int V = e->slate->digit_rows, rows = positions(r);
    const int8_t *digits = cell(e, u, &node);
    float *to = e->ddigits + (digits - e->slate->digits) * V;
    e->k->gemm(r->T, rows, r->W, dz, r->W, r->table, dots, rows, NULL, 0);
    for (int s = 0; s < r->S; s++, digits += r->T, dots += r->T + 1)
        for (int i = 0; i < r->T; i++, to += V)
            for (int t = 0; t < r->T && t + 2 < V; t++) {
                const int first = position(digits, r->T, t, 0);
                if (first > 0 && first <= i) continue;
                const float *with = dots + t * rows;
                to[t + 2] += with[i + 1] - with[position(digits, r->T, t, i + 1)];
            }
}

/* Of one cell, into the tile's shares. */
static void parameter_gradients(const tg_exec *e, const room *r, int64_t u, const float *f, const float *dz,
                                float *const *share) {
    int32_t node;
    const int8_t *digits = cell(e, u, &node);
    if (share[WEIGHT] != NULL) e->k->gemm_tn(r->T, r->W, r->G, dz, r->W, f, r->G, share[WEIGHT], r->G);
    if (share[BIAS] != NULL) e->k->add_rows(r->T, r->W, dz, r->W, share[BIAS]);
    for (int t = 0; share[POSITION] != NULL && t < r->T; t++)
        for (int s = 0; s < r->S; s++) {
            const int row = s * (r->T + 1) + position(digits + s * r->T, r->T, t, 0);
            e->k->add_rows(1, r->W, dz + (int64_t)t * r->W, 0, share[POSITION] + (int64_t)row * r->W);
        }
}

static float *place_of(const room *r, int p) {
    return p == POSITION ? r->dposition : p == BIAS ? r->dbias : r->dweight;
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int bent = r->act.kind != TG_ACT_NONE;
    float *f = r->G > 0 ? tg_of_thread(e, t, r->f) : NULL, *z = tg_of_thread(e, t, r->z),
          *room_ = tg_of_thread(e, t, r->dz), *share[WEIGHT + 1], *slopes = tg_act_share(e, t, &r->act);
    for (int p = 0; p <= WEIGHT; p++) share[p] = tg_share_dw(e, t, place_of(r, p), p);
    for (int64_t u = t->row; u < t->row + t->rows; u++, dy += e->out.cols) {
        const float *dz = dy;
        if (bent || share[WEIGHT] != NULL) make(e, r, u, f, z);
        if (bent) {
            tg_act_backward(e, &r->act, r->T, dy, z, room_, slopes);
            dz = room_;
        }
        parameter_gradients(e, r, u, f, dz, share);
        if (e->ddigits != NULL) digit_gradient(e, r, u, dz, tg_of_thread(e, t, r->dots));
        if (r->G > 0 && e->dx[0] != NULL)
            e->k->gemm(r->T, r->G, r->W, dz, r->W, r->turned, r->df + u * r->T * r->G, r->G, NULL, 0);
    }
}

/* The first unique cell at configurable node k or behind it: their numbers follow the nodes. */
static int32_t first_of(const tg_slate *s, int32_t k) {
    int32_t low = 0, high = s->U;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->unique_at[middle] / s->C < k) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* dx of a configurable node: the sum over the cells that are unique there. */
static void input_gradient(const tg_exec *e, void *context, int64_t k) {
    const room *r = context;
    const attrs *a = e->attrs;
    float *dx = e->dx[0] + (int64_t)e->slate->config_node[k] * e->in[0].cols + a->column;
    const int32_t last = first_of(e->slate, (int32_t)k + 1);
    for (int32_t u = first_of(e->slate, (int32_t)k); u < last; u++) {
        const float *df = r->df + (int64_t)u * r->T * r->G;
        for (int t = 0; t < r->T; t++)
            for (int g = 0; g < r->G; g++) dx[g * a->step + t] += df[t * r->G + g];
    }
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_end(e, &r->act);
    for (int p = 0; p <= WEIGHT; p++) tg_sum_dw(e, place_of(r, p), p);
    if (r->G == 0 || e->dx[0] == NULL) return;
    const size_t size = (size_t)tg_rows(e->slate, e->in[0].space) * (size_t)e->in[0].cols;
    if (!e->dx_add[0]) memset(e->dx[0], 0, size * sizeof *e->dx[0]);
    tg_parts(e, e->slate->K, (double)e->slate->U * r->T * r->G, input_gradient, (void *)e->room);
}

const tg_op tg_op_dimension_tokens = {
    .name = "dimension_tokens",
    .doc = "A token per dimension of every unique cell: features of the dimension, and its positions in the "
           "layouts.",
    .inputs = {{"x", TG_IN(NODE), 1}},
    .params = {[POSITION] = "position", [BIAS] = "bias", [WEIGHT] = "weight", [SLOPE] = TG_ACT_PARAM},
    .attrs = {TG_INT(attrs, tokens, TG_LAYOUT_DIGITS, 1, TG_MOST_TOKENS, "dimensions: digits of a layout"),
              TG_INT(attrs, cols, 64, 1, 65536, "columns of a token"),
              TG_ACT_ATTRS(attrs, TG_ACT_NONE, "activation"),
              TG_INT(attrs, column, TG_SHAPE_COLUMN, 0, 65536, "column of x of dimension 0"),
              TG_INT(attrs, groups, 1, 1, 4096, "features of a dimension"),
              TG_INT(attrs, step, 8, 1, 65536, "columns from one of these features to the next")},
    .flags = TG_NEEDS_UNIQUE | TG_NEEDS_DIGITS | TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}},
};
