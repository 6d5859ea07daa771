/* Propagation along edges, per config: `steps` rounds of
       x <- (1 - alpha) P x + alpha x0,   x0 the input.
   One round with alpha 0 is that of GCN (Kipf & Welling 2017), several are APPNP (Gasteiger et al. 2019). With A_ij the
   number of edges from j into i and D_i the sum of row i,
       sym   P_ij = A_ij / sqrt(D_i D_j)      mean   P_ij = A_ij / D_i      sum   P_ij = A_ij
   as PyG's gcn_norm: both D of sym count edges into a node, and with self_loops every node has one edge from itself,
   whatever edges of that kind the graph has. A row of P without edges is 0.
   The gradient takes the same rounds with P transposed, from dy: nothing is kept. The last round is the phase; those
   before it come in its `begin`, on threads over nodes. */
#include "ops/op.h"

#include <math.h>

enum { SYM, MEAN, SUM };
enum { NODES = 64 }; /* that a thread takes at a time before the phase */

typedef struct attrs {
    int norm, self_loops, direction, transposed, steps, stats;
    double alpha;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    p->makes_stats = ((const attrs *)p->attrs)->stats;
    return TG_OK;
}

typedef struct room {
    int F, per, turned; /* columns, rows of a node; whether P is transposed */
    const tg_csr *csr;  /* of a node those that its rows are made of */
    float *factor;      /* (N): 1 / sqrt(D), 1 / D, or 1 */
    float *own;         /* (N): P_ii, less what the edges of the graph make of it */
    float *rows[2];     /* (N,per,F): rounds before the last write to one and the other */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    const tg_slate *s = e->slate;
    room *r = to;
    *r = (room){.F = e->in[0].cols, .per = tg_per_out(e)};
    r->turned = (back != 0) != (a->transposed != 0);
    r->csr = r->turned ? s->receivers[a->direction] : s->senders[a->direction];
    const int64_t floats = tg_rows(s, e->out.space) * r->F;
    c->work += 2.0 * ((double)r->csr->E + 2.0 * s->N) * r->per * r->F; /* of a round */
    r->factor = tg_carve(c, TG_SHARED, s->N);
    r->own = tg_carve(c, TG_SHARED, s->N);
    for (int i = 0; i < 2 && i < a->steps - 1; i++) r->rows[i] = tg_carve(c, TG_SHARED, floats);
}

static void weigh(const tg_exec *e, int64_t v) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const tg_csr *senders = e->slate->senders[a->direction];
    int degree = senders->ptr[v + 1] - senders->ptr[v], loops = 0;
    for (int k = senders->ptr[v]; a->self_loops && k < senders->ptr[v + 1]; k++)
        loops += senders->idx[k] == v;
    if (a->self_loops) degree += 1 - loops;
    const double d = degree, factor = a->norm == SUM ? 1
                                      : degree == 0  ? 0
                                                     : 1 / (a->norm == SYM ? sqrt(d) : d);
    r->factor[v] = (float)factor;
    r->own[v] = a->self_loops ? (float)((1 - loops) * (a->norm == SYM ? factor * factor : factor)) : 0.0f;
}

/* y = [y +] a round of `rows` rows of node v from config `from` on, out of x(N,per,F); `start`: those of x0. */
static void pass(const tg_exec *e, int64_t v, int from, int rows, const float *x, const float *start,
                 float *y, int add) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int64_t first = r->csr->ptr[v], stride = (int64_t)r->per * r->F;
    const float keep = (float)(1 - a->alpha), *base = x + (int64_t)from * r->F;
    const int of_receiver = a->norm == SYM || (a->norm == MEAN && !r->turned);
    const int of_sender = a->norm == SYM || (a->norm == MEAN && r->turned);
    const tg_edges node = {.count = (int)(r->csr->ptr[v + 1] - first),
                           .known = (int)(r->csr->E - first),
                           .E = e->slate->E,
                           .n = rows * r->F,
                           .node = r->csr->idx + first,
                           .edge = r->csr->edge + first,
                           .by_node = of_sender ? r->factor : NULL,
                           .scale = of_receiver ? keep * r->factor[v] : keep,
                           .base = base,
                           .stride = stride,
                           .more = {r->own[v] != 0 ? base + v * stride : NULL, a->alpha > 0 ? start : NULL},
                           .more_factor = {keep * r->own[v], (float)a->alpha}};
    e->k->edge_sum(&node, y, add);
}

/* ---- all rounds but the last ---- */

typedef struct round_context {
    const float *x, *start; /* (N,per,F); x NULL: the factors of nodes instead of a round */
    float *y;
} round_context;

static void round_part(const tg_exec *e, void *context, int64_t i) {
    const room *r = (const room *)e->room;
    const round_context *c = context;
    const int64_t end = (i + 1) * NODES < e->slate->N ? (i + 1) * NODES : e->slate->N;
    for (int64_t v = i * NODES; v < end; v++) {
        const int64_t at = v * r->per * r->F;
        if (c->x == NULL) weigh(e, v);
        else pass(e, v, 0, r->per, c->x, c->start + at, c->y + at, 0);
    }
}

/* What the last round is made of, when x0 is `start`. */
static const float *before_last(const tg_exec *e, const float *start) {
    const room *r = (const room *)e->room;
    const int steps = ((const attrs *)e->attrs)->steps;
    return steps == 1 ? start : r->rows[steps % 2];
}

static void rounds(const tg_exec *e, const float *start) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int64_t parts = ((int64_t)e->slate->N + NODES - 1) / NODES;
    round_context c = {NULL, start, NULL};
    tg_parts(e, parts, (double)r->csr->E, round_part, &c);
    c.x = start;
    for (int step = 0; step < a->steps - 1; step++, c.x = c.y) {
        c.y = r->rows[step % 2];
        tg_parts(e, parts, e->work, round_part, &c);
    }
}

/* ---- the last ---- */

static void last(const tg_exec *e, const tg_tile *t, const float *x0, float *y, int add) {
    const room *r = (const room *)e->room;
    const float *x = before_last(e, x0), *start = x0 + t->row * r->F;
    for (int at = 0; at < t->rows; at += r->per) {
        const int rows = t->rows - at < r->per ? t->rows - at : r->per;
        pass(e, t->item + at / r->per, t->from, rows, x, start + (int64_t)at * r->F, y + (int64_t)at * r->F,
             add);
    }
}

static void begin(const tg_exec *e) { rounds(e, e->x[0]); }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    last(e, t, e->x[0], y, 0);
    tg_stats_tile(e, t, y);
}

static void begin_back(const tg_exec *e) {
    if (e->dx[0] != NULL) rounds(e, e->dy);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    (void)dy;
    if (e->dx[0] != NULL) last(e, t, e->dy, e->dx[0] + t->row * e->in[0].cols, e->dx_add[0]);
}

const tg_op tg_op_propagate = {
    .name = "propagate",
    .doc = "Propagation along edges: that of GCN (Kipf & Welling 2017), in rounds APPNP (Gasteiger et al. "
           "2019).",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, norm, SYM, "sym|mean|sum",
                  "an edge counts 1 / sqrt of both nodes' edges in, 1 / those "
                  "of its receiver, or 1"),
        TG_FLAG_ON(attrs, self_loops, "every node has one edge from itself, those of the graph aside"),
        TG_CHOICE(attrs, direction, TG_FORWARD, TG_DIRECTION_NAMES, "who sends to whom"),
        TG_FLAG(attrs, transposed, "P transposed: what every node gives, with the norm of the takers"),
        TG_INT(attrs, steps, 1, 1, 64, "rounds"),
        TG_REAL(attrs, alpha, 0, 0, 1, "share of the input in the result of every round"),
        TG_FLAG(attrs, stats, "keep norm statistics of the result")),
    .flags = TG_NEEDS_EDGES,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward}}),
};
