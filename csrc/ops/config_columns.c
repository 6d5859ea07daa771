/* The digits of a config as numbers, times `scale`: y(N,C,P), 0 at nodes that are not configurable, or y(K,C,P) of the
   configurable nodes alone. */
#include "ops/op.h"

#include <string.h>

enum { NODES, CONFIG_NODES };

typedef struct attrs {
    int of;
    double scale;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->digit_cols < 1) return tg_fail(err, TG_E_RECIPE, "the graphs have no config digits");
    p->out = (tg_shape){a->of == NODES ? TG_SPACE_NODE_CONFIG : TG_SPACE_CONFIG_NODE_CONFIG, p->digit_cols};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

/* The configurable node of an item; -1: it is not one. */
static int32_t node_of(const tg_exec *e, int64_t item) {
    const attrs *a = e->attrs;
    return a->of == CONFIG_NODES ? (int32_t)item : e->slate->config_of[item];
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int C = e->slate->C, P = e->out.cols;
    const float scale = (float)((const attrs *)e->attrs)->scale;
    for (int at = 0; at < t->rows; at += C) {
        const int32_t k = node_of(e, t->item + at / C);
        const int rows = t->rows - at < C ? t->rows - at : C;
        float *to = y + (int64_t)at * P;
        if (k < 0) memset(to, 0, (size_t)rows * (size_t)P * sizeof *to);
        for (int i = 0; k >= 0 && i < rows; i++) {
            const int8_t *digits = e->slate->digits + ((int64_t)(t->from + i) * e->slate->K + k) * P;
            for (int p = 0; p < P; p++) to[(int64_t)i * P + p] = scale * (float)digits[p];
        }
    }
}

/* ddigits(C,K,P,V): entry v of a digit's one-hot vector stands for the number v - 2; entry 0 is that of nodes which are
   not configurable, 0. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int C = e->slate->C, P = e->out.cols, V = e->slate->digit_rows;
    const float scale = (float)((const attrs *)e->attrs)->scale;
    for (int at = 0; e->ddigits != NULL && at < t->rows; at += C) {
        const int32_t k = node_of(e, t->item + at / C);
        const int rows = t->rows - at < C ? t->rows - at : C;
        for (int i = 0; k >= 0 && i < rows; i++) {
            const float *d = dy + (int64_t)(at + i) * P;
            float *to = e->ddigits + ((int64_t)(t->from + i) * e->slate->K + k) * P * V;
            for (int entry = 0; entry < P * V; entry++) {
                const int v = entry % V;
                const float slope = v == 0 ? 0.0f : scale * (float)(v - 2) * d[entry / V];
                to[entry] = e->ddigits_add ? to[entry] + slope : slope;
            }
        }
    }
}

const tg_op tg_op_config_columns = {
    .name = "config_columns",
    .doc = "The digits of a node's config as numbers, a column each.",
    .attrs = {TG_CHOICE(attrs, of, NODES, "nodes|config_nodes",
                        "which rows: all nodes, or configurable ones"),
              TG_REAL(attrs, scale, 1, -1e6, 1e6, "factor")},
    .flags = TG_NEEDS_DIGITS | TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .backward = backward}},
};
