/* y = 2 to 4 inputs next to each other; inputs without configs, or without nodes, are repeated (broadcast.h). */
#include "ops/broadcast.h"

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int64_t cols = 0;
    for (int i = 0; i < p->n_in; i++) cols += p->in[i].cols;
    const tg_status status = tg_join_inputs(p, &p->out.space, err);
    p->out.cols = (int)cols;
    p->pulls = p->out.space == p->in[0].space;
    return status;
}

typedef struct room {
    float *places[TG_JOINED]; /* backward, of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    c->work += (double)tg_rows(e->slate, e->out.space) * e->out.cols;
    if (back) tg_carve_joined(e, c, ((room *)to)->places);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    for (int i = 0; i < e->n_in; y += e->in[i++].cols) tg_spread(e, t, i, y, e->out.cols, 0);
}

/* From the last input on: of a slot that is there twice, the gradient of the first place is added. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    dy += e->out.cols;
    for (int i = e->n_in - 1; i >= 0; i--) {
        dy -= e->in[i].cols;
        tg_gather(e, t, i, dy, e->out.cols, r->places[i]);
    }
}

static void end_back(const tg_exec *e) { tg_gather_end(e, ((const room *)e->room)->places); }

const tg_op tg_op_concat = {
    .name = "concat",
    .doc = "2 to 4 inputs next to each other; those with a row per node alone, per config alone, or a single "
           "row, are "
           "repeated.",
    .inputs = {{"x", TG_IN_ANY, 0}, {"y", TG_IN_ANY, 0}, {"z", TG_IN_ANY, 1}, {"u", TG_IN_ANY, 1}},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .backward = backward, .end = end_back}},
};
