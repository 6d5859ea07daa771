/* y(U, F + D): for every unique cell the row of its node in x(N,F), and behind it the places of dimensions in its layouts.

   The D digits of a cell are layouts of T digits, one per tensor; a layout lists dimensions, most minor first. Column
   F + s T + t is the first place of layout s whose digit is t, from 0 on, or -1 if none is. Where x is not node_feat, cells
   of different nodes are never equal.

   In the gradient per digit a digit counts through its one-hot vector: what changes when that place lists t and no longer
   does not. It is written to the first of equal cells; 0 elsewhere. */
#include "features/schema.h"
#include "ops/op.h"

#include <string.h>

typedef struct attrs {
    int tokens;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->digit_cols < 1 || p->digit_cols % a->tokens != 0)
        return tg_fail(err, TG_E_RECIPE, "%d digit%s cannot be cut into layouts of %d", p->digit_cols,
                       TG_S(p->digit_cols), a->tokens);
    p->out = (tg_shape){TG_SPACE_UNIQUE, (p->n_in == 1 ? p->in[0].cols : 0) + p->digit_cols};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 2.0 * e->slate->U * e->out.cols;
}

/* The digits of unique cell u, and its node. */
static const int8_t *cell(const tg_exec *e, int64_t u, int32_t *node) {
    const tg_slate *s = e->slate;
    const int32_t at = s->unique_at[u], k = at / s->C, c = at % s->C;
    *node = s->config_node[k];
    return tg_digits_at(s, k, c);
}

/* place(T): the first place that lists each dimension, or -1 */
static void find_places(const int8_t *layout, int T, float *place) {
    for (int t = 0; t < T; t++) place[t] = -1;
    for (int i = T - 1; i >= 0; i--)
        if (layout[i] >= 0 && layout[i] < T) place[layout[i]] = (float)i;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int T = ((const attrs *)e->attrs)->tokens, D = e->slate->digit_cols, F = e->out.cols - D;
    for (int64_t u = t->row; u < t->row + t->rows; u++, y += e->out.cols) {
        int32_t node;
        const int8_t *digits = cell(e, u, &node);
        if (F > 0) memcpy(y, e->x[0] + (int64_t)node * F, (size_t)F * sizeof *y);
        for (int p = 0; p < D; p += T) find_places(digits + p, T, y + F + p);
    }
}

static void begin_back(const tg_exec *e) {
    const size_t entries = (size_t)e->slate->C * (size_t)e->slate->K * (size_t)e->slate->digit_cols;
    if (e->ddigits != NULL && !e->ddigits_add)
        memset(e->ddigits, 0, entries * (size_t)e->slate->digit_rows * sizeof *e->ddigits);
}

/* to(T,V) of one layout: place i lists t, or does not. The difference, unless an earlier place lists t anyway. */
static void digit_gradient(const int8_t *layout, int T, int V, const float *dy, float *to) {
    float first[TG_MOST_TOKENS],
        next[TG_MOST_TOKENS]; /* that list a dimension: of all places, of those behind i */
    find_places(layout, T, first);
    for (int t = 0; t < T; t++) next[t] = -1;
    for (int i = T - 1; i >= 0; i--) {
        const float at = (float)i;
        for (int t = 0; t < T && t + 2 < V; t++)
            if (first[t] < 0 || first[t] >= at) to[i * V + t + 2] += dy[t] * (at - next[t]);
        if (layout[i] >= 0 && layout[i] < T) next[layout[i]] = at;
    }
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int T = ((const attrs *)e->attrs)->tokens, D = e->slate->digit_cols, F = e->out.cols - D,
              V = e->slate->digit_rows;
    for (int64_t u = t->row; e->ddigits != NULL && u < t->row + t->rows; u++, dy += e->out.cols) {
        int32_t node;
        const int8_t *digits = cell(e, u, &node);
        float *to = e->ddigits + (digits - e->slate->digits) * V;
        for (int p = 0; p < D; p += T) digit_gradient(digits + p, T, V, dy + F + p, to + p * V);
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
    const int F = e->in[0].cols;
    const int32_t first = first_of(e->slate, (int32_t)k), last = first_of(e->slate, (int32_t)k + 1);
    (void)context;
    e->k->add_rows(last - first, F, e->dy + (int64_t)first * e->out.cols, e->out.cols,
                   e->dx[0] + (int64_t)e->slate->config_node[k] * F);
}

static void end_back(const tg_exec *e) {
    if (e->n_in == 0 || e->dx[0] == NULL) return;
    const size_t size = (size_t)e->slate->N * (size_t)e->in[0].cols;
    if (!e->dx_add[0]) memset(e->dx[0], 0, size * sizeof *e->dx[0]);
    tg_parts(e, e->slate->K, (double)e->slate->U * e->in[0].cols, input_gradient, NULL);
}

const tg_op tg_op_cell_columns = {
    .name = "cell_columns",
    .doc =
        "For every unique cell the row of its node, and the place of every dimension in each of its layouts.",
    .inputs = {{"x", TG_IN(NODE), 1}},
    .attrs = TG_ATTRS(
        TG_INT(attrs, tokens, TG_LAYOUT_DIGITS, 1, TG_MOST_TOKENS, "dimensions: digits of a layout")),
    .flags = TG_NEEDS_UNIQUE | TG_NEEDS_DIGITS | TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
