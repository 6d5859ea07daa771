/* y = x + std z in training, z standard normal by counter: of the row and the column, whatever the threads do. */
#include "ops/op.h"

#include <string.h>

#include "base/rng.h"

typedef struct attrs {
    double std;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    p->inplace_in = 0;
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)to;
    c->work += (back ? 4 : 40) * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->out.cols;
    const float std = (float)((const attrs *)e->attrs)->std;
    const float *x = e->x[0] + t->row * F;
    if (!e->training || std == 0) {
        memcpy(y, x, (size_t)t->rows * (size_t)F * sizeof *y);
        return;
    }
    for (int r = 0; r < t->rows; r++, x += F, y += F)
        e->k->add_normals(F, tg_key(e->key, (uint64_t)(t->row + r)), std, x, y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    tg_add_dx(e, 0, t->row, (int64_t)t->rows * e->out.cols, dy);
}

const tg_op tg_op_noise = {
    .name = "noise",
    .doc = "Gaussian noise added in training (Bishop 1995); nothing in scoring.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs = TG_ATTRS(TG_REAL(attrs, std, 0.1, 0, 1e6, "standard deviation")),
    .flags = TG_RANDOM,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
