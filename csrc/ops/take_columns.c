/* Columns `first` to `first` + `count` - 1 of every row. */
#include "ops/op.h"

#include <string.h>

typedef struct attrs {
    int first, count;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int F = p->in[0].cols;
    if (a->first + a->count > F)
        return tg_fail(err, TG_E_RECIPE, "expected columns of x, of which there are %d, got %d to %d", F,
                       a->first, a->first + a->count - 1);
    p->out = (tg_shape){p->in[0].space, a->count};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 2.0 * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, count = e->out.cols;
    const float *x = e->x[0] + t->row * F + ((const attrs *)e->attrs)->first;
    e->k->copy_rows(t->rows, count, x, F, y, count, 0);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, count = e->out.cols, add = e->dx_add[0];
    if (e->dx[0] == NULL) return;
    float *dx = e->dx[0] + t->row * F;
    if (!add) memset(dx, 0, (size_t)t->rows * (size_t)F * sizeof *dx);
    e->k->copy_rows(t->rows, count, dy, count, dx + ((const attrs *)e->attrs)->first, F, add);
}

const tg_op tg_op_take_columns = {
    .name = "take_columns",
    .doc = "Some neighbouring columns of every row.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs = TG_ATTRS(TG_INT(attrs, first, 0, 0, 65536, "the first of them"),
                      TG_INT(attrs, count, 1, 1, 65536, "how many")),
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
