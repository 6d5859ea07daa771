/* The rows of both ends of every edge: x(N,[C,]F) -> y(E,[C,]2F) = [x_u | x_v], u consuming v. Backward adds up,
   node by node, what its edges have. */
#include "ops/op.h"

enum { CONSUMER, OPERAND };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){tg_edge_space(p->in[0].space), 2 * p->in[0].cols};
    p->recompute = 1;
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *room) {
    (void)back, (void)room;
    c->work += 2.0 * (double)tg_rows(e->slate, e->out.space) * e->out.cols;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int per = tg_per_out(e), F = e->in[0].cols;
    for (int at = 0; at < t->rows; at += per) {
        const int64_t edge = t->item + at / per;
        const int rows = t->rows - at < per ? t->rows - at : per;
        for (int end = CONSUMER; end <= OPERAND; end++) {
            const float *x = e->x[0] + ((int64_t)e->slate->ends[end][edge] * per + t->from) * F;
            e->k->copy_rows(rows, F, x, F, y + ((int64_t)at * 2 + end) * F, 2 * F, 0);
        }
    }
}

/* dx(F) of node v in config `config` += its halves of the rows of edges that it is this end of. */
static void add_end(const tg_exec *e, int64_t v, int config, int end, float *dx, int add) {
    const tg_csr *csr = e->slate->senders[end == CONSUMER ? TG_REVERSE : TG_FORWARD];
    const int per = tg_per_in(e), F = e->in[0].cols;
    const int32_t first = csr->ptr[v], *edges = csr->edge + first;
    const tg_edges node = {.count = csr->ptr[v + 1] - first,
                           .known = csr->E - first,
                           .E = csr->E,
                           .n = F,
                           .node = edges, /* rows are those of edges */
                           .edge = edges,
                           .scale = 1.0f,
                           .base = e->dy + ((int64_t)config * 2 + end) * F,
                           .stride = (int64_t)per * 2 * F};
    e->k->edge_sum(&node, dx, add);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int per = tg_per_in(e), F = e->in[0].cols;
    (void)dy;
    if (e->dx[0] == NULL) return;
    float *dx = e->dx[0] + t->row * F;
    for (int row = 0; row < t->rows; row++, dx += F) {
        const int64_t v = (t->row + row) / per;
        const int config = (t->from + row) % per;
        add_end(e, v, config, CONSUMER, dx, e->dx_add[0]);
        add_end(e, v, config, OPERAND, dx, 1);
    }
}

const tg_op tg_op_edge_ends = {
    .name = "edge_ends",
    .doc = "The rows of both ends of every edge: of the consumer u, then of its operand v.",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_INPUT, .backward = backward}}),
};
