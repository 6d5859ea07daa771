/* DropEdge (Rong et al. 2020): a weight per edge. In training it is 0 with probability p, else 1 / (1 - p) or 1; when
   scoring it is 1. The chance is p, or drawn from 0..p, once for all slates of a step. Taken against its direction, an edge has the same weight. Nothing has a gradient: there is
   no backward. */
#include "base/rng.h"
#include "ops/op.h"

enum { FIXED, DRAWN };

typedef struct attrs {
    int kept, chance;
    double p;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){TG_SPACE_EDGE, 1};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 10.0 * e->slate->E;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const double p = a->chance == DRAWN ? a->p * tg_uniform(e->batch_key, 0) : a->p;
    const float kept = e->training && a->kept == 0 ? (float)(1.0 / (1.0 - p)) : 1.0f;
    for (int i = 0; i < t->rows; i++)
        y[i] = e->training && tg_uniform(e->key, (uint64_t)(t->row + i)) < p ? 0.0f : kept;
}

const tg_op tg_op_drop_edge = {
    .name = "drop_edge",
    .doc = "Weights of edges, some of them 0 in training (DropEdge, Rong et al. 2020).",
    .attrs = TG_ATTRS(
        TG_REAL(attrs, p, 0.2, 0, TG_BELOW_ONE, "chance that an edge is dropped"),
        TG_CHOICE(attrs, kept, 0, "rescaled|one", "weight of the others in training: 1 / (1 - p), or 1"),
        TG_CHOICE(attrs, chance, FIXED, "fixed|drawn",
                  "p, or for every step of training a number from 0 to p, the same for all its slates")),
    .flags = TG_NEEDS_EDGES | TG_RANDOM,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
};
