/* Messages from neighbours, each with a weight (none: 1), per config:
       mean   y_i = sum of w_e x_j / s_i,   s_i = max(sum of w_e, eps)
       sum    y_i = sum of w_e x_j
       share  y_i = sum of x_j / d_j,   d_j = max(number of edges into j, eps)
   over the edges e from j into i; 0 without edges. */
#include "ops/op.h"

enum { X, WEIGHT };
enum { MEAN, SUM, SHARE };
enum { SCALE }; /* saved, of a weighted mean: 1 / s_i, with a minus where s_i is eps */

typedef struct attrs {
    int kind, direction, stats;
    double eps;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    p->out = p->in[X];
    p->makes_stats = a->stats;
    if (p->n_in < 2) return TG_OK;
    if (a->kind == SHARE) return tg_fail(err, TG_E_RECIPE, "expected no weight with kind \"share\"");
    if (p->in[WEIGHT].cols != 1)
        return tg_fail(err, TG_E_RECIPE, "weight must have one column, found %d", p->in[WEIGHT].cols);
    p->needs_in = 3;
    if (a->kind == MEAN) p->saved[SCALE] = (tg_shape){TG_SPACE_NODE, 1};
    return TG_OK;
}

typedef struct room {
    int F, per, E; /* columns, rows of a node, edges of the graph */
    const tg_csr *senders, *receivers;
    float *scale;   /* (N) backward of weights: 1 / s_i; share: 1 / d_j */
    float *dweight; /* backward: by number of an edge, both directions one behind the other */
    float *dots;    /* of a thread: (edges of a node) */
} room;

static int weighted(const tg_exec *e) { return e->n_in == 2; }

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    const tg_slate *s = e->slate;
    room *r = to;
    *r = (room){.F = e->in[X].cols,
                .per = tg_per_out(e),
                .E = s->E,
                .senders = s->senders[a->direction],
                .receivers = s->receivers[a->direction]};
    c->work += (back ? 4.0 : 2.0) * r->senders->E * r->per * r->F;
    if (a->kind == SHARE || (back && weighted(e))) r->scale = tg_carve(c, TG_SHARED, s->N);
    if (!back || !weighted(e)) return;
    r->dweight = tg_carve(c, TG_SHARED, r->senders->E);
    r->dots = tg_carve(c, TG_SCRATCH, r->senders->max_degree);
}

/* The edges in `csr` of the node whose rows begin at row `at` of the tile, and rows (N,per,F) at their other ends. */
static tg_edges edges_of(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int at, const float *rows) {
    const room *r = (const room *)e->room;
    const int64_t v = t->item + at / r->per, first = csr->ptr[v];
    const int count = t->rows - at < r->per ? t->rows - at : r->per;
    return (tg_edges){.count = (int)(csr->ptr[v + 1] - first),
                      .known = (int)(csr->E - first),
                      .E = r->E,
                      .n = count * r->F,
                      .node = csr->idx + first,
                      .edge = csr->edge + first,
                      .by_edge = weighted(e) ? e->x[WEIGHT] : NULL,
                      .scale = 1.0f,
                      .base = rows + (int64_t)t->from * r->F,
                      .stride = (int64_t)r->per * r->F};
}

static float weight_of(const tg_edges *node, int k) {
    const int32_t edge = node->edge[k];
    return node->by_edge[edge < node->E ? edge : edge - node->E];
}

/* 1 / s_i, with a minus where s_i is eps. */
static float scale_of(const tg_edges *node, double eps) {
    double sum = 0;
    for (int k = 0; k < node->count; k++) sum += (double)weight_of(node, k);
    return (float)(sum > eps ? 1 / sum : -1 / eps);
}

/* Every sender divides what it sends by its own degree. */
static void begin_shares(const tg_exec *e) {
    const attrs *a = e->attrs;
    const float *inverse = e->slate->inv_degree[a->direction];
    const room *r = (const room *)e->room;
    for (int64_t v = 0; a->kind == SHARE && v < e->slate->N; v++)
        r->scale[v] = inverse[v] > 0 && (double)inverse[v] * a->eps < 1 ? inverse[v] : (float)(1 / a->eps);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    for (int at = 0; at < t->rows; at += r->per) {
        const int64_t v = t->item + at / r->per;
        tg_edges node = edges_of(e, t, r->senders, at, e->x[X]);
        if (a->kind == MEAN && weighted(e)) {
            const float scale = e->saved[SCALE][v] = scale_of(&node, a->eps);
            node.scale = scale < 0 ? -scale : scale;
        } else if (a->kind == MEAN) {
            node.scale = e->slate->inv_degree[a->direction][v];
        }
        if (a->kind == SHARE) node.by_node = r->scale;
        e->k->edge_sum(&node, y + (int64_t)at * r->F, 0);
    }
    tg_stats_tile(e, t, y);
}

static void begin_back(const tg_exec *e) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    begin_shares(e);
    for (int64_t v = 0; weighted(e) && v < e->slate->N; v++) {
        const float scale = a->kind == SUM ? 1.0f : e->saved[SCALE][v];
        r->scale[v] = scale < 0 ? -scale : scale;
    }
}

/* Over the nodes that edges go to, for the gradients of weights: with d_e = dy_i . x_j in all configs,
   d_e / s_i, less their weighted mean where s_i is a sum of weights. */
static void backward_receivers(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    if (!weighted(e) || e->dx[WEIGHT] == NULL) return;
    float *dots = tg_of_thread(e, t, r->dots);
    for (int at = 0; at < t->rows; at += r->per) {
        const int64_t v = t->item + at / r->per;
        const tg_edges node = edges_of(e, t, r->senders, at, e->x[X]);
        const int mean = a->kind == MEAN && e->saved[SCALE][v] > 0;
        double sum = 0;
        e->k->edge_dots(&node, dy + (int64_t)at * r->F, dots);
        for (int k = 0; mean && k < node.count; k++) sum += (double)weight_of(&node, k) * (double)dots[k];
        for (int k = 0; k < node.count; k++) {
            float *to = r->dweight + node.edge[k];
            const double rest = mean && node.count == 1 ? 0 : (double)dots[k] - sum * (double)r->scale[v];
            *to = (t->from == 0 ? 0.0f : *to) + r->scale[v] * (float)rest;
        }
    }
}

/* Over the nodes that edges come from: dx_j = sum of w_e dy_i / s_i, or of dy_i / d_j */
static void backward_senders(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    (void)dy;
    for (int at = 0; e->dx[X] != NULL && at < t->rows; at += r->per) {
        tg_edges node = edges_of(e, t, r->receivers, at, e->dy);
        if (a->kind == SHARE) node.scale = r->scale[t->item + at / r->per];
        else
            node.by_node = weighted(e)       ? r->scale
                           : a->kind == MEAN ? e->slate->inv_degree[a->direction]
                                             : NULL;
        e->k->edge_sum(&node, e->dx[X] + (t->row + at) * r->F, e->dx_add[X]);
    }
}

/* An edge taken in both directions has two shares. */
static void backward_edges(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    (void)dy;
    if (!weighted(e) || e->dx[WEIGHT] == NULL) return;
    float *d = r->dweight + t->row;
    if (a->direction == TG_BOTH) e->k->add_rows(1, t->rows, d + r->E, 0, d);
    tg_add_dx(e, WEIGHT, t->row, t->rows, d);
}

const tg_op tg_op_edge_mean = {
    .name = "edge_mean",
    .doc = "Weighted mean or sum of the rows of a node's neighbours.",
    .inputs = {{"x", TG_IN_NODES, 0}, {"weight", TG_IN(EDGE), 1}},
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, kind, MEAN, "mean|sum|share",
                  "whether the sum is divided by that of the weights; share: each row is, by the number "
                  "of edges into its own node"),
        TG_REAL(attrs, eps, 1e-6, 1e-30, 1e30, "least divisor"),
        TG_CHOICE(attrs, direction, TG_FORWARD, TG_DIRECTION_NAMES, "who sends to whom"),
        TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin_shares, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward_receivers},
                             {.over = TG_OVER_OUTPUT, .backward = backward_senders},
                             {.over = TG_SPACE_EDGE, .backward = backward_edges}}),
};
