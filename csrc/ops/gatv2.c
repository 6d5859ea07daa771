/* GATv2 (Brody, Alon, Yahav 2022; PyG's GATv2Conv without self loops). Per config and head, with l = w_l x + b_l,
   r = w_r x + b_r (H,O):
       score of an edge from j to i = att . leaky(l_j + r_i), its weight = softmax of it over the edges into i
       y_i = bias + sum over these edges of weight l_j, heads side by side or averaged; bias without edges
   Where a node has one edge, its weight is 1: r_i is needed of nodes with several edges in, l_j of nodes with edges
   out, and only these rows are multiplied. */
#include "ops/attend.h"

#include <string.h>

enum { WEIGHT_L, BIAS_L, WEIGHT_R, BIAS_R, ATT, BIAS };
enum { L, R, ALPHA };           /* saved; ALPHA: see tg_edge_weights */
enum { SENDS = 1, SHARES = 2 }; /* edges that a node must have: out of it for l, into it for r */

typedef struct attrs {
    int cols, heads, merge, direction, stats;
    double slope;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const tg_space space = p->in[0].space;
    const int wide = a->heads * a->cols, F = p->in[0].cols;
    (void)err;
    p->out = (tg_shape){space, a->merge ? a->cols : wide};
    p->makes_stats = a->stats;
    for (int i = WEIGHT_L; i <= WEIGHT_R; i += WEIGHT_R) {
        p->params[i] = tg_glorot(wide, F);
        p->params[i + 1] = tg_weight(wide, 0, F);
    }
    p->params[ATT] = tg_glorot(a->heads, a->cols);
    p->params[BIAS] = (tg_param_spec){NULL, p->out.cols, 0, TG_INIT_CONSTANT, 0.0f};
    p->saved[L] = p->saved[R] = (tg_shape){space, wide};
    p->saved[ALPHA] = tg_edge_weights(space, a->direction, a->heads);
    p->needs_in = 1;
    return TG_OK;
}

typedef struct room {
    int F, wide, per; /* columns of x, of all heads; rows of a node */
    const tg_csr *senders, *receivers;
    float *left, *right;             /* packed w_l, w_r */
    float *dscore;                   /* backward: gradient of the scores, as ALPHA */
    float *dw, *db, *datt, *dbias;   /* backward, of a chunk; dw, db of l or r */
    float *x, *wide_rows, *products; /* of a thread: rows of x, of l or r or their gradients; backward: dx */
    float *near;                     /* of a thread, see tg_attend */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    const tg_slate *s = e->slate;
    room *r = to;
    const int F = e->in[0].cols, wide = a->heads * a->cols;
    *r = (room){.F = F,
                .wide = wide,
                .per = tg_per_out(e),
                .senders = s->senders[a->direction],
                .receivers = s->receivers[a->direction]};
    const int64_t rows = e->tile_rows, packed = back ? tg_packed(e->k, F, wide) : tg_packed(e->k, wide, F);
    const int64_t scores = (int64_t)r->senders->E * r->per * a->heads;
    c->work +=
        (back ? 4.0 : 2.0) * (double)tg_rows(s, e->out.space) * F * wide + 8.0 * (double)scores * a->cols;
    r->left = tg_carve(c, TG_SHARED, packed);
    r->right = tg_carve(c, TG_SHARED, packed);
    r->x = tg_carve(c, TG_SCRATCH, rows * F);
    r->wide_rows = tg_carve(c, TG_SCRATCH, rows * wide);
    r->near = tg_carve(c, TG_SCRATCH, (int64_t)r->senders->max_degree * e->k->vector);
    if (!back) return;
    r->products = tg_carve(c, TG_SCRATCH, rows * F);
    r->dscore = tg_carve(c, TG_SHARED, scores);
    r->dw = tg_carve(c, TG_PARTIAL, (int64_t)wide * F);
    r->db = tg_carve(c, TG_PARTIAL, wide);
    r->datt = tg_carve(c, TG_PARTIAL, wide);
    r->dbias = tg_carve(c, TG_PARTIAL, e->out.cols);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_pack(e, 0, r->wide, r->F, e->w[WEIGHT_L], r->F, r->left);
    tg_pack(e, 0, r->wide, r->F, e->w[WEIGHT_R], r->F, r->right);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_pack(e, 1, r->F, r->wide, e->w[WEIGHT_L], r->F, r->left);
    tg_pack(e, 1, r->F, r->wide, e->w[WEIGHT_R], r->F, r->right);
}

/* ---- rows of those nodes that have at least `least` edges ---- */

/* The next run of such rows of the tile, from row *at on: their number, 0 at the end. */
static int next(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int least, int *at) {
    const int per = ((const room *)e->room)->per;
    const int64_t nodes = (t->rows + per - 1) / per;
    if (least == 0 || *at >= t->rows) return t->rows - *at;
    int64_t first = *at / per, last;
    while (first < nodes && tg_degree(csr, t->item + first) < least) first++;
    for (last = first; last < nodes && tg_degree(csr, t->item + last) >= least;) last++;
    *at = (int)first * per;
    return last == nodes ? t->rows - *at : (int)(last - first) * per;
}

/* `least`, or 0 where copying the rows of the nodes with these edges would take longer than it saves. */
static int choose(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int least) {
    int found = 0;
    for (int at = 0, rows; (rows = next(e, t, csr, least, &at)) > 0; at += rows) found += rows;
    return 4 * found > 3 * t->rows ? 0 : least;
}

/* x, one run behind the other: copied to the thread's `to`, or where they are, if they are all rows. */
static const float *pick(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int least, float *to,
                         int *found) {
    const int F = e->in[0].cols;
    const float *x = e->x[0] + t->row * F;
    *found = 0;
    for (int at = 0, rows; (rows = next(e, t, csr, least, &at)) > 0; at += rows, *found += rows)
        if (rows < t->rows)
            memcpy(to + (int64_t)*found * F, x + (int64_t)at * F, (size_t)rows * (size_t)F * sizeof *to);
    return *found == t->rows ? x : to;
}

/* ---- forward ---- */

/* to = w x + b for such nodes, at least; the other rows are not needed */
static void project(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int least, const float *packed,
                    const float *bias, float *to) {
    const room *r = (const room *)e->room;
    const int wide = r->wide;
    int found;
    least = choose(e, t, csr, least);
    const float *x = pick(e, t, csr, least, tg_of_thread(e, t, r->x), &found);
    float *y = tg_of_thread(e, t, r->wide_rows);
    to += t->row * wide;
    if (found == t->rows) y = to;
    e->k->gemm(found, wide, r->F, x, r->F, packed, y, wide, bias, 0);
    for (int at = 0, rows; y != to && (rows = next(e, t, csr, least, &at)) > 0;
         at += rows, y += (int64_t)rows * wide)
        memcpy(to + (int64_t)at * wide, y, (size_t)rows * (size_t)wide * sizeof *to);
}

static void forward_rows(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    (void)y;
    project(e, t, r->receivers, SENDS, r->left, e->w[BIAS_L], e->saved[L]);
    project(e, t, r->senders, SHARES, r->right, e->w[BIAS_R], e->saved[R]);
}

/* What is the same for all nodes of a tile. `far`: l or r of all nodes. */
static tg_attend attend_of(const tg_exec *e, const tg_tile *t, const float *far) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int64_t per = r->per, from = t->from;
    return (tg_attend){.heads = a->heads,
                       .cols = a->cols,
                       .mean = a->merge,
                       .slope = (float)a->slope,
                       .att = e->w[ATT],
                       .bias = e->w[BIAS],
                       .far = far + from * r->wide,
                       .weight = e->saved[ALPHA] + from * a->heads,
                       .near = tg_of_thread(e, t, r->near),
                       .dscore = r->dscore == NULL ? NULL : r->dscore + from * a->heads,
                       .far_stride = per * r->wide,
                       .dy_stride = per * e->out.cols,
                       .edge_stride = per * a->heads};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    tg_attend node = attend_of(e, t, e->saved[L]);
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->senders, t, at, r->per);
        node.own = e->saved[R] + (t->row + at) * r->wide;
        node.y = y + (int64_t)at * e->out.cols;
        e->k->attend_forward(&node);
    }
    tg_stats_tile(e, t, y);
}

/* ---- backward ---- */

/* From d(found,wide), the gradient of l or r of such nodes: dw += d^T x, db += sum d, dx = [dx +] d w */
static void backward_rows(const tg_exec *e, const tg_tile *t, const tg_csr *csr, int least, const float *d,
                          const float *packed, int weight, int add) {
    const room *r = (const room *)e->room;
    const int F = r->F, wide = r->wide;
    float *dw = tg_share_dw(e, t, r->dw, weight), *db = tg_share_dw(e, t, r->db, weight + 1);
    float *dx = e->dx[0] == NULL ? NULL : e->dx[0] + t->row * F, *products = tg_of_thread(e, t, r->products);
    int found;
    const float *x = pick(e, t, csr, least, tg_of_thread(e, t, r->x), &found);
    if (dw != NULL) e->k->gemm_tn(found, wide, F, d, wide, x, F, dw, F);
    if (db != NULL) e->k->add_rows(found, wide, d, wide, db);
    if (dx == NULL) return;
    if (found == t->rows) {
        e->k->gemm(found, F, wide, d, wide, packed, dx, F, NULL, add);
        return;
    }
    if (!add) memset(dx, 0, (size_t)t->rows * (size_t)F * sizeof *dx);
    e->k->gemm(found, F, wide, d, wide, packed, products, F, NULL, 0);
    for (int at = 0, rows; (rows = next(e, t, csr, least, &at)) > 0;
         at += rows, products += (int64_t)rows * F)
        e->k->add_rows(1, (int64_t)rows * F, products, 0, dx + (int64_t)at * F);
}

/* Nodes without an influence on r or l have no gradient of it: zeros, or no row among those `next` finds. */
static void no_gradient(tg_attend *node, int wide, int least) {
    const int64_t n = (int64_t)node->rows * wide;
    if (least > 0) return;
    memset(node->down, 0, (size_t)n * sizeof *node->down);
    node->down += n;
}

/* Over the nodes that edges go to: gradients of scores, of r and what makes it, of att and bias. */
static void backward_receivers(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int least = choose(e, t, r->senders, SHARES);
    float *dr = tg_of_thread(e, t, r->wide_rows), *dbias = tg_share_dw(e, t, r->dbias, BIAS);
    tg_attend node = attend_of(e, t, e->saved[L]);
    node.datt = tg_share_dw(e, t, r->datt, ATT);
    node.down = dr;
    if (dbias != NULL) e->k->add_rows(t->rows, e->out.cols, dy, e->out.cols, dbias);
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->senders, t, at, r->per);
        if (node.count < SHARES) {
            tg_no_dscore(&node);
            no_gradient(&node, r->wide, least);
            continue;
        }
        node.own = e->saved[R] + (t->row + at) * r->wide;
        node.dy = dy + (int64_t)at * e->out.cols;
        e->k->attend_receiver(&node);
        node.down += (int64_t)node.rows * r->wide;
    }
    backward_rows(e, t, r->senders, least, dr, r->right, WEIGHT_R, e->dx_add[0]);
}

/* Over the nodes that edges come from: gradients of l and what makes it. */
static void backward_senders(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int least = choose(e, t, r->receivers, SENDS);
    float *dl = tg_of_thread(e, t, r->wide_rows);
    tg_attend node = attend_of(e, t, e->saved[R]);
    (void)dy;
    node.dy = e->dy + (int64_t)t->from * e->out.cols;
    node.down = dl;
    for (int at = 0; at < t->rows; at += r->per) {
        tg_set_edges(&node, r->receivers, t, at, r->per);
        if (node.count < SENDS) {
            no_gradient(&node, r->wide, least);
            continue;
        }
        node.own = e->saved[L] + (t->row + at) * r->wide;
        e->k->attend_sender(&node);
        node.down += (int64_t)node.rows * r->wide;
    }
    backward_rows(e, t, r->receivers, least, dl, r->left, WEIGHT_L, 1);
}

static void end_receivers(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_dw(e, r->dw, WEIGHT_R);
    tg_sum_dw(e, r->db, BIAS_R);
    tg_sum_dw(e, r->datt, ATT);
    tg_sum_dw(e, r->dbias, BIAS);
}

static void end_senders(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_dw(e, r->dw, WEIGHT_L);
    tg_sum_dw(e, r->db, BIAS_L);
}

const tg_op tg_op_gatv2 = {
    .name = "gatv2",
    .doc = "GATv2 attention over the edges into a node (Brody et al. 2022).",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .params = {[WEIGHT_L] = "weight_l",
               [BIAS_L] = "bias_l",
               [WEIGHT_R] = "weight_r",
               [BIAS_R] = "bias_r",
               [ATT] = "att",
               [BIAS] = "bias"},
    .attrs = TG_ATTRS(TG_INT(attrs, cols, 1, 1, 65536, "columns of a head"),
                      TG_INT(attrs, heads, 1, 1, 256, "number of heads"),
                      TG_CHOICE(attrs, merge, 0, "concat|mean", "heads side by side, or their mean"),
                      TG_REAL(attrs, slope, 0.2, 0, 1, "of the leaky ReLU, below 0"),
                      TG_CHOICE(attrs, direction, TG_FORWARD, TG_DIRECTION_NAMES, "who sends to whom"),
                      TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward_rows},
                {.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD(
        {{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward_receivers, .end = end_receivers},
         {.over = TG_OVER_OUTPUT, .backward = backward_senders, .end = end_senders}}),
};
