/* x(K,[C,]F) at the configurable nodes of y(N,[C,]F). Elsewhere the rows of `rest`, of nodes (the same for every config) or
   of nodes and configs, or zeros. The result has configs if one of the two has. */
#include "ops/op.h"

#include <string.h>

enum { X, REST };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int rest = p->n_in == 2;
    if (rest && p->in[REST].cols != p->in[X].cols)
        return tg_fail(err, TG_E_RECIPE, "'rest' must have the %d column%s of 'x', found %d", p->in[X].cols,
                       TG_S(p->in[X].cols), p->in[REST].cols);
    const int configs =
        p->in[X].space == TG_SPACE_CONFIG_NODE_CONFIG || (rest && p->in[REST].space == TG_SPACE_NODE_CONFIG);
    p->out = (tg_shape){configs ? TG_SPACE_NODE_CONFIG : TG_SPACE_NODE, p->in[X].cols};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 2.0 * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

/* The input that has the rows of node `item`, and the first of them for config `from`; -1: none. */
static int source(const tg_exec *e, int64_t item, int from, int64_t *row) {
    const int32_t k = e->slate->config_of[item];
    const int input = k >= 0 ? X : REST;
    if (input >= e->n_in) return -1;
    const int per = tg_per_item(e->slate, e->in[input].space);
    *row = (k >= 0 ? k : item) * per + (per == 1 ? 0 : from);
    return input;
}

/* Whether an input has one row for all configs of a node. */
static int is_same(const tg_exec *e, int input) {
    return tg_per_item(e->slate, e->in[input].space) < tg_per_out(e);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int per = tg_per_out(e), F = e->out.cols;
    for (int at = 0; at < t->rows; at += per) {
        const int rows = t->rows - at < per ? t->rows - at : per;
        int64_t row = 0;
        const int input = source(e, t->item + at / per, t->from, &row);
        float *to = y + (int64_t)at * F;
        if (input < 0) {
            memset(to, 0, (size_t)rows * (size_t)F * sizeof *to);
            continue;
        }
        const float *x = e->x[input] + row * F;
        const int same = is_same(e, input);
        for (int i = 0; i < rows; i++)
            memcpy(to + (int64_t)i * F, same ? x : x + (int64_t)i * F, (size_t)F * sizeof *to);
    }
}

/* Rows that `rest` has for configurable nodes are not read, and have no gradient. */
static void clear_rest(const tg_exec *e, int64_t item, int from, int rows) {
    if (e->n_in < 2 || e->dx[REST] == NULL || e->dx_add[REST] || e->slate->config_of[item] < 0) return;
    const int per = tg_per_item(e->slate, e->in[REST].space), F = e->out.cols;
    float *dx = e->dx[REST] + (item * per + (per == 1 ? 0 : from)) * F;
    memset(dx, 0, (size_t)(per == 1 ? 1 : rows) * (size_t)F * sizeof *dx);
}

/* Parts of one node come one after the other: the first starts the sum over its configs. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int per = tg_per_out(e), F = e->out.cols;
    for (int at = 0; at < t->rows; at += per) {
        const int rows = t->rows - at < per ? t->rows - at : per;
        const float *d = dy + (int64_t)at * F;
        int64_t row = 0;
        const int input = source(e, t->item + at / per, t->from, &row);
        clear_rest(e, t->item + at / per, t->from, rows);
        if (input < 0 || e->dx[input] == NULL) continue;
        if (!is_same(e, input)) {
            tg_add_dx(e, input, row, (int64_t)rows * F, d);
            continue;
        }
        float *dx = e->dx[input] + row * F;
        if (t->from == 0 && !e->dx_add[input]) memset(dx, 0, (size_t)F * sizeof *dx);
        e->k->add_rows(rows, F, d, F, dx);
    }
}

const tg_op tg_op_put_config_nodes = {
    .name = "put_config_nodes",
    .doc = "Rows of configurable nodes in their places among all nodes; the others have those of `rest`, or "
           "zeros.",
    .inputs = {{"x", TG_IN_CONFIG_NODES, 0}, {"rest", TG_IN_NODES, 1}},
    .flags = TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
