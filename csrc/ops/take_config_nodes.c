/* The rows of the configurable nodes: x(N,[C,]F) -> y(K,[C,]F). */
#include "ops/op.h"

#include <string.h>

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){p->in[0].space == TG_SPACE_NODE ? TG_SPACE_CONFIG_NODE : TG_SPACE_CONFIG_NODE_CONFIG,
                        p->in[0].cols};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 2.0 * (double)tg_rows(e->slate, e->in[0].space) * e->out.cols;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int per = tg_per_out(e), F = e->out.cols;
    for (int at = 0; at < t->rows; at += per) {
        const int rows = t->rows - at < per ? t->rows - at : per;
        const int64_t from = (int64_t)e->slate->config_node[t->item + at / per] * per + t->from;
        memcpy(y + (int64_t)at * F, e->x[0] + from * F, (size_t)rows * (size_t)F * sizeof *y);
    }
}

/* Over all nodes: those that are not configurable have no gradient. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int per = tg_per_in(e), F = e->out.cols;
    const int far = tg_rows(e->slate, e->in[0].space) * F >= TG_FAR;
    (void)dy;
    for (int at = 0; at < t->rows; at += per) {
        const int rows = t->rows - at < per ? t->rows - at : per;
        const int32_t k = e->slate->config_of[t->item + at / per];
        const int64_t n = (int64_t)rows * F, row = t->row + at;
        if (k >= 0) tg_add_dx(e, 0, row, n, e->dy + ((int64_t)k * per + t->from) * F);
        else if (e->dx[0] == NULL || e->dx_add[0]) continue;
        else if (far) e->k->clear(n, e->dx[0] + row * F);
        else memset(e->dx[0] + row * F, 0, (size_t)n * sizeof(float));
    }
}

const tg_op tg_op_take_config_nodes = {
    .name = "take_config_nodes",
    .doc = "The rows of the configurable nodes.",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .flags = TG_NEEDS_CONFIG_NODES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_INPUT, .backward = backward}}),
};
