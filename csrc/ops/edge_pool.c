/* Rows of edges at the nodes they end in: x(E,[C,]F) -> y(N,[C,]F), the mean or sum over the edges whose
   consumer, or operand, is the node; 0 without edges. Backward gives an edge its share of the gradient of that
   node. */
#include "ops/op.h"

enum { MEAN, SUM };
enum { CONSUMER, OPERAND };

typedef struct attrs {
    int kind, end, stats;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out =
        (tg_shape){p->in[0].space == TG_SPACE_EDGE ? TG_SPACE_NODE : TG_SPACE_NODE_CONFIG, p->in[0].cols};
    p->makes_stats = ((const attrs *)p->attrs)->stats;
    return TG_OK;
}

typedef struct room {
    int F, per;           /* columns, rows of an edge */
    const int32_t *ends;  /* (E): the nodes */
    const tg_csr *csr;    /* their edges */
    const float *inverse; /* (N): 1 / the number of these; NULL: a sum */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    (void)back;
    const attrs *a = e->attrs;
    const int direction = a->end == CONSUMER ? TG_REVERSE : TG_FORWARD; /* u receives from v in reverse */
    room *r = to;
    *r = (room){.F = e->in[0].cols,
                .per = tg_per_out(e),
                .ends = e->slate->ends[a->end],
                .csr = e->slate->senders[direction],
                .inverse = a->kind == MEAN ? e->slate->inv_degree[direction] : NULL};
    c->work += 2.0 * (double)tg_rows(e->slate, e->in[0].space) * r->F;
}

/* `count` rows of x(.,per,F), those numbered in `numbers`, of which `known` may be read; for the tile's row `at`
   on. */
static tg_edges rows_of(const tg_exec *e, const tg_tile *t, int at, const float *x, const int32_t *numbers,
                        int count, int known) {
    const room *r = (const room *)e->room;
    const int rows = t->rows - at < r->per ? t->rows - at : r->per;
    return (tg_edges){.count = count,
                      .known = known,
                      .E = e->slate->E,
                      .n = rows * r->F,
                      .node = numbers,
                      .edge = numbers,
                      .scale = 1.0f,
                      .base = x + (int64_t)t->from * r->F,
                      .stride = (int64_t)r->per * r->F};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    for (int at = 0; at < t->rows; at += r->per) {
        const int64_t v = t->item + at / r->per;
        const int32_t first = r->csr->ptr[v];
        tg_edges edges =
            rows_of(e, t, at, e->x[0], r->csr->edge + first, r->csr->ptr[v + 1] - first, r->csr->E - first);
        if (r->inverse != NULL) edges.scale = r->inverse[v];
        e->k->edge_sum(&edges, y + (int64_t)at * r->F, 0);
    }
    tg_stats_tile(e, t, y);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    (void)dy;
    for (int at = 0; e->dx[0] != NULL && at < t->rows; at += r->per) {
        const int64_t edge = t->item + at / r->per;
        tg_edges node = rows_of(e, t, at, e->dy, r->ends + edge, 1, (int)(e->slate->E - edge));
        node.by_node = r->inverse;
        e->k->edge_sum(&node, e->dx[0] + (t->row + at) * r->F, e->dx_add[0]);
    }
}

const tg_op tg_op_edge_pool = {
    .name = "edge_pool",
    .doc = "Mean or sum of the rows of a node's edges, at their consumers or at their operands.",
    .inputs = {{"x", TG_IN(EDGE) | TG_IN(EDGE_CONFIG), 0}},
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, kind, MEAN, "mean|sum", "whether the sum is divided by the number of edges"),
        TG_CHOICE(attrs, end, CONSUMER, "consumer|operand", "which end of its edges the node is"),
        TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_INPUT, .backward = backward}}),
};
