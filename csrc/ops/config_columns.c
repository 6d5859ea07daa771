/* The digits of a config as numbers, plus `shift`, times `scale`: y(N,C,P), 0 at nodes that are not configurable, or
   y(K,C,P) of the configurable nodes alone. A layout of six digits lists dimensions; as `positions` column t is the place of dimension t
   in it, -1 where it is not listed. */
#include "features/schema.h"
#include "ops/op.h"

#include <string.h>

enum { NODES };
enum { DIGITS, POSITIONS };

typedef struct attrs {
    int of, form;
    double scale, shift;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->digit_cols < 1) return tg_fail(err, TG_E_RECIPE, "the graphs have no config digits");
    if (a->form == POSITIONS && p->digit_cols % TG_LAYOUT_DIGITS != 0)
        return tg_fail(err, TG_E_RECIPE, "%d digit%s cannot be cut into layouts of %d", p->digit_cols,
                       TG_S(p->digit_cols), TG_LAYOUT_DIGITS);
    if (a->form == POSITIONS && a->shift != 0)
        return tg_fail(err, TG_E_RECIPE, "shift is of the digits themselves: it needs form=digits");
    p->out = (tg_shape){a->of == NODES ? TG_SPACE_NODE_CONFIG : TG_SPACE_CONFIG_NODE_CONFIG, p->digit_cols};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

static void write_digits(const int8_t *digits, int P, float scale, float shift, float *y) {
    for (int p = 0; p < P; p++) y[p] = scale * ((float)digits[p] + shift);
}

static void write_positions(const int8_t *digits, int P, float scale, float shift, float *y) {
    (void)shift;
    for (int p = 0; p < P; p++) y[p] = -scale;
    for (int p = 0; p < P; p++) {
        const int begin = p - p % TG_LAYOUT_DIGITS, dimension = digits[p];
        if (dimension >= 0 && dimension < TG_LAYOUT_DIGITS)
            y[begin + dimension] += scale * (float)(p - begin + 1);
    }
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const int C = e->slate->C, P = e->out.cols;
    for (int at = 0; at < t->rows; at += C) {
        const int32_t k = tg_config_position(e, t->item + at / C);
        const int rows = t->rows - at < C ? t->rows - at : C;
        float *to = y + (int64_t)at * P;
        if (k < 0) memset(to, 0, (size_t)rows * (size_t)P * sizeof *to);
        for (int i = 0; k >= 0 && i < rows; i++) {
            const int8_t *digits = tg_digits_at(e->slate, k, t->from + i);
            (a->form == DIGITS ? write_digits : write_positions)(digits, P, (float)a->scale, (float)a->shift,
                                                                 to + (int64_t)i * P);
        }
    }
}

/* What y gains if entry `v` of the one-hot vector of digit p is 1, over scale: that entry stands for the number v - 2, the
   first for "not configurable". */
static float slope_of(const attrs *a, int p, int v, const float *dy) {
    const int digit = v - 2, place = p % TG_LAYOUT_DIGITS;
    if (v == 0) return 0.0f;
    if (a->form == DIGITS) return ((float)digit + (float)a->shift) * dy[p];
    return digit < 0 || digit >= TG_LAYOUT_DIGITS ? 0.0f : (float)(place + 1) * dy[p - place + digit];
}

/* ddigits(C,K,P,V) */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const int C = e->slate->C, P = e->out.cols, V = e->slate->digit_rows;
    for (int at = 0; e->ddigits != NULL && at < t->rows; at += C) {
        const int32_t k = tg_config_position(e, t->item + at / C);
        const int rows = t->rows - at < C ? t->rows - at : C;
        for (int i = 0; k >= 0 && i < rows; i++) {
            const float *d = dy + (int64_t)(at + i) * P;
            float *to = e->ddigits + ((int64_t)(t->from + i) * e->slate->K + k) * P * V;
            for (int entry = 0; entry < P * V; entry++) {
                const float slope = (float)a->scale * slope_of(a, entry / V, entry % V, d);
                to[entry] = e->ddigits_add ? to[entry] + slope : slope;
            }
        }
    }
}

const tg_op tg_op_config_columns = {
    .name = "config_columns",
    .doc = "The digits of a node's config as numbers, a column each.",
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, of, NODES, "nodes|config_nodes", "which rows: all nodes, or configurable ones"),
        TG_CHOICE(attrs, form, DIGITS, "digits|positions",
                  "the digits themselves, or the place of every dimension in each layout"),
        TG_REAL(attrs, scale, 1, -1e6, 1e6, "factor"),
        TG_REAL(attrs, shift, 0, -1e6, 1e6,
                "digits: what is added to them before, where nodes are configurable")),
    .flags = TG_NEEDS_DIGITS | TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
