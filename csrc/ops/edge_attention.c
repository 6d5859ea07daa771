/* Attention over the edges into a node, per config and head:
       y_i = sum over edges from j into i of weight v_j,   weight = softmax over these edges of
       dot        q_i . k_j / sqrt(D), of D columns of a head (TransformerConv of Shi et al. 2021)
       additive   leaky(q_i + k_j), of one column per head (GAT of Velickovic et al. 2018)
   heads side by side or averaged; 0 without edges. Where a node has one edge, its weight is 1 whatever the score. */
#include "ops/attend.h"
#include "ops/heads.h"

#include <math.h>

enum { Q, K, V };
enum { ALPHA }; /* saved, see tg_edge_weights */
enum { DOT, ADDITIVE };

typedef struct attrs {
    int score, heads, merge, direction, stats;
    double slope;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const tg_space space = p->in[Q].space;
    const int wide = p->in[Q].cols, values = p->in[V].cols;
    tg_status status = tg_check_same_rows(p, err);
    if (status != TG_OK) return status;
    if (a->score == ADDITIVE && wide != a->heads)
        return tg_fail(err, TG_E_RECIPE, "additive scores take one column of q and k per head: %d, found %d",
                       a->heads, wide);
    if ((status = tg_check_heads(p, a->heads, err)) != TG_OK) return status;
    p->out = (tg_shape){space, a->merge ? values / a->heads : values};
    p->makes_stats = a->stats;
    p->saved[ALPHA] = tg_edge_weights(space, a->direction, a->heads);
    p->needs_in = 1 << Q | 1 << K | 1 << V;
    return TG_OK;
}

typedef struct room {
    int wide, values, per; /* columns of q and k, of v; rows of a node */
    const tg_csr *senders, *receivers;
    float *dscore; /* backward: as ALPHA, see tg_attend */
    float *near;   /* of a thread, see tg_attend */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    const tg_slate *s = e->slate;
    room *r = to;
    *r = (room){.wide = e->in[Q].cols,
                .values = e->in[V].cols,
                .per = tg_per_out(e),
                .senders = s->senders[a->direction],
                .receivers = s->receivers[a->direction]};
    const int longest = back && r->receivers->max_degree > r->senders->max_degree ? r->receivers->max_degree
                                                                                  : r->senders->max_degree;
    const int64_t edges = (int64_t)r->senders->E * r->per;
    c->work += (back ? 4.0 : 2.0) * (double)edges * (r->wide + r->values);
    r->near = tg_carve(c, TG_SCRATCH, (int64_t)longest * e->k->vector);
    if (back) r->dscore = tg_carve(c, TG_SHARED, edges * a->heads);
}

/* What is the same for all nodes of a tile, whose edges lead to rows of k and v. */
static tg_attend attend_of(const tg_exec *e, const tg_tile *t) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int64_t per = r->per, from = t->from;
    return (tg_attend){.heads = a->heads,
                       .cols = r->values / a->heads,
                       .key_cols = r->wide / a->heads,
                       .score = a->score == DOT ? TG_SCORE_DOT : TG_SCORE_ADD,
                       .mean = a->merge,
                       .slope = (float)a->slope,
                       .scale = (float)sqrt((double)a->heads / r->wide),
                       .far = e->x[V] + from * r->values,
                       .key = e->x[K] + from * r->wide,
                       .weight = e->saved[ALPHA] + from * a->heads,
                       .near = tg_of_thread(e, t, r->near),
                       .dscore = r->dscore == NULL ? NULL : r->dscore + from * a->heads,
                       .far_stride = per * r->values,
                       .key_stride = per * r->wide,
                       .dy_stride = per * e->out.cols,
                       .edge_stride = per * a->heads};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    tg_attend node = attend_of(e, t);
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->senders, t, at, r->per);
        node.own = e->x[Q] + (t->row + at) * r->wide;
        node.y = y + (int64_t)at * e->out.cols;
        e->k->attend_forward(&node);
    }
    tg_stats_tile(e, t, y);
}

/* Over the nodes that edges go to: gradients of scores and of q. */
static void backward_receivers(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    tg_attend node = attend_of(e, t);
    if (e->dx[Q] == NULL && e->dx[K] == NULL) return;
    if (e->dx[Q] != NULL) node.add = tg_adds_dx(e, Q, 0);
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->senders, t, at, r->per);
        const int64_t row = t->row + at, n = (int64_t)node.rows * r->wide;
        if (e->dx[Q] != NULL) node.down = e->dx[Q] + row * r->wide;
        if (node.count <= 1) {
            tg_no_dscore(&node);
            if (node.down != NULL && !node.add) memset(node.down, 0, (size_t)n * sizeof *node.down);
            continue;
        }
        node.own = e->x[Q] + row * r->wide;
        node.dy = dy + (int64_t)at * e->out.cols;
        e->k->attend_receiver(&node);
    }
}

/* The gradient of input i, sums over the edges out of nodes. */
static void collect(const tg_exec *e, const tg_tile *t, tg_attend node, int i) {
    const room *r = (const room *)e->room;
    const int cols = e->in[i].cols;
    node.key = NULL;
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->receivers, t, at, r->per);
        node.down = e->dx[i] + (t->row + at) * cols;
        e->k->attend_collect(&node);
    }
}

/* Over the nodes that edges come from: dv_j = sum of weight dy_i, dk_j = sum of the gradient of the product q_i, or of
   the sum. */
static void backward_senders(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const tg_attend node = attend_of(e, t);
    (void)dy;
    if (e->dx[V] != NULL) {
        tg_attend values = node;
        values.far = e->dy + (int64_t)t->from * e->out.cols;
        values.far_stride = node.dy_stride;
        values.add = tg_adds_dx(e, V, 1 << Q);
        collect(e, t, values, V);
    }
    if (e->dx[K] != NULL) {
        tg_attend keys = node;
        keys.mean = 0;
        keys.cols = node.key_cols;
        keys.weight = node.dscore;
        keys.far = a->score == DOT ? e->x[Q] + (int64_t)t->from * r->wide : NULL;
        keys.far_stride = node.key_stride;
        keys.add = tg_adds_dx(e, K, 1 << Q | 1 << V);
        collect(e, t, keys, K);
    }
}

const tg_op tg_op_edge_attention = {
    .name = "edge_attention",
    .doc = "Attention over the edges into a node, that of TransformerConv (Shi et al. 2021) or GAT "
           "(Velickovic et al. 2018).",
    .inputs = {{"q", TG_IN_NODES, 0}, {"k", TG_IN_NODES, 0}, {"v", TG_IN_NODES, 0}},
    .attrs = TG_ATTRS(TG_CHOICE(attrs, score, DOT, "dot|additive",
                                "q . k / sqrt(columns of a head); leaky(q + k), of one column per head"),
                      TG_INT(attrs, heads, 1, 1, 4096, "heads, side by side in the columns"),
                      TG_CHOICE(attrs, merge, 0, "concat|mean", "heads side by side, or their mean"),
                      TG_REAL(attrs, slope, 0.2, 0, 1, "of additive scores below 0"),
                      TG_CHOICE(attrs, direction, TG_FORWARD, TG_DIRECTION_NAMES, "who sends to whom"),
                      TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward_receivers},
                             {.over = TG_OVER_OUTPUT, .backward = backward_senders}}),
};
