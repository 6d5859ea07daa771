/* Inverted dropout: in training an element is 0 with the chance p, and x / (1 - p) otherwise. The draws depend on key,
   row and column alone, and are made again in backward. */
#include "ops/op.h"

typedef struct attrs {
    double p;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    if (((const attrs *)p->attrs)->p == 0) p->flags &= ~(unsigned)TG_RANDOM;
    p->recompute = 1;
    p->pulls = 1;
    p->inplace_in = 0;
    return TG_OK;
}

typedef struct room {
    float *keys; /* of a thread, (rows,2) */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)back;
    c->work += 4.0 * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
    ((room *)to)->keys = tg_carve(c, TG_SCRATCH, 2 * (int64_t)e->tile_rows);
}

/* y = [y +] x times the factors of the tile's rows */
static void drop(const tg_exec *e, const tg_tile *t, const float *x, float *y, int add) {
    const tg_dropout dropout = tg_dropout_of(e, ((const attrs *)e->attrs)->p);
    if (dropout.threshold == 0) {
        if (x != y || add) e->k->copy_rows(1, (int64_t)t->rows * e->out.cols, x, 0, y, 0, add);
        return;
    }
    uint32_t *keys = (uint32_t *)tg_of_thread(e, t, ((const room *)e->room)->keys);
    tg_row_keys(e, t, 0, t->rows, keys);
    e->k->drop_rows(t->rows, e->out.cols, x, &dropout, keys, y, add);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) { drop(e, t, tg_pull(e, t), y, 0); }

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    drop(e, t, dy, dx, e->into == NULL && e->dx_add[0]);
    tg_push(e, t, dx);
}

const tg_op tg_op_dropout = {
    .name = "dropout",
    .doc = "Inverted dropout: nothing but in training, as torch.nn.Dropout.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs =
        TG_ATTRS(TG_REAL(attrs, p, 0.5, 0, TG_BELOW_ONE, "chance that an element is dropped in training")),
    .flags = TG_RANDOM,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward}}),
};
