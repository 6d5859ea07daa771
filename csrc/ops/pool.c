/* Pooling over nodes: x(N,C,F) -> y(C, F * kinds), x(N,F) -> y(1, F * kinds), the kinds (mean, max, sum) side
   by side; or over the configurable nodes, all kinds being 0 of a graph that has none. */
#include "ops/op.h"

#include <string.h>

enum { MEAN = 1, MAX = 2, SUM = 4 };

typedef struct attrs {
    int kind;
} attrs;

static int kinds(const void *attrs_) { /* choices are listed from bit set 1 on */
    return ((const attrs *)attrs_)->kind + 1;
}

static int count(int set) { return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1); }

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){tg_pooled_space(p->in[0].space), p->in[0].cols * count(kinds(p->attrs))};
    p->needs_in = kinds(p->attrs) & MAX ? 1 : 0;
    p->pulls = !p->needs_in; /* the gradient of a maximum needs all of x at once */
    return TG_OK;
}

static int64_t nodes(const tg_exec *e) { return tg_items(e->slate, e->in[0].space); }

typedef struct room {
    float *sum, *top; /* forward, of a chunk: sums (C,F), maxima (C,F) */
    float *same;      /* backward: the same gradient for every node, as many rows of it as a tile has */
    float *share;     /* the maximum's share (C,F), and */
    int32_t *node;    /* the node it goes to (C,F) */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int64_t n = (int64_t)tg_per_in(e) * e->in[0].cols, rows = (int64_t)e->tile_rows * e->in[0].cols;
    const int max = kinds(e->attrs) & MAX;
    c->work += 2.0 * (double)nodes(e) * (double)n;
    if (!back) {
        r->sum = tg_carve(c, TG_PARTIAL, n);
        if (max) r->top = tg_carve(c, TG_PARTIAL, n);
        return;
    }
    r->same = tg_carve(c, TG_SHARED, rows > n ? rows : n);
    if (!max) return;
    r->share = tg_carve(c, TG_SHARED, n);
    r->node = (int32_t *)tg_carve(c, TG_SHARED, n);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, C = tg_per_in(e);
    const int64_t n = (int64_t)C * F, from = (int64_t)t->from * F;
    const float *x = tg_pull(e, t);
    const room *r = (const room *)e->room;
    float *sum = tg_of_chunk(e, t, r->sum) + from,
          *top = r->top == NULL ? NULL : tg_of_chunk(e, t, r->top) + from;
    (void)y;
    for (int at = 0; at < t->rows; at += C, x += n) {
        const int64_t size = (int64_t)(t->rows - at < C ? t->rows - at : C) * F;
        const int first = t->item + at / C == t->chunk_begin;
        if (first) memcpy(sum, x, (size_t)size * sizeof *sum);
        else e->k->add_rows(1, size, x, 0, sum);
        if (!(kinds(e->attrs) & MAX)) continue;
        for (int64_t j = 0; j < size; j++) top[j] = first || x[j] > top[j] || x[j] != x[j] ? x[j] : top[j];
    }
}

static void forward_end(const tg_exec *e) {
    const int C = tg_per_in(e), F = e->in[0].cols, set = kinds(e->attrs);
    const int64_t n = (int64_t)C * F, chunks = tg_loop_of(e).chunks;
    const room *r = (const room *)e->room;
    const float N = (float)nodes(e);
    float *sum = r->sum, *top = r->top;
    if (N == 0) {
        memset(e->y, 0, (size_t)C * (size_t)e->out.cols * sizeof *e->y);
        return;
    }
    for (int64_t c = 1; c < chunks; c++) {
        e->k->add_rows(1, n, sum + c * e->partial_stride, 0, sum);
        if (!(set & MAX)) continue;
        const float *other = top + c * e->partial_stride;
        for (int64_t j = 0; j < n; j++)
            top[j] = other[j] > top[j] || other[j] != other[j] ? other[j] : top[j];
    }
    for (int c = 0; c < C; c++) {
        float *y = e->y + (int64_t)c * e->out.cols;
        for (int kind = MEAN; kind <= SUM; kind <<= 1) {
            if (!(set & kind)) continue;
            const float *from = (kind == MAX ? top : sum) + (int64_t)c * F;
            for (int f = 0; f < F; f++) y[f] = kind == MEAN ? from[f] / N : from[f];
            y += F;
        }
    }
}

/* Of config c: the first node that has the maximum. */
static void find_winners(const tg_exec *e, void *context, int64_t c) {
    const int F = e->in[0].cols, set = kinds(e->attrs);
    const int64_t n = (int64_t)tg_per_in(e) * F;
    const room *r = (const room *)e->room;
    float *share = r->share + c * F;
    int32_t *node = r->node + c * F;
    const float *x = e->x[0] + c * F;
    const int64_t N = nodes(e);
    (void)context;
    memcpy(share, e->dy + c * e->out.cols + (set & MEAN ? F : 0), (size_t)F * sizeof *share);
    memset(node, 0, (size_t)F * sizeof *node);
    for (int32_t v = 1; v < N; v++)
        for (int f = 0; f < F; f++)
            if (x[v * n + f] > x[node[f] * n + f]) node[f] = v;
}

static void begin_back(const tg_exec *e) {
    const room *r_ = (const room *)e->room;
    const int C = tg_per_in(e), F = e->in[0].cols, set = kinds(e->attrs);
    const int rows = e->tile_rows > C ? e->tile_rows : C;
    const float N = (float)nodes(e);
    if (N == 0) return;
    for (int r = 0; r < rows; r++) {
        const float *dy = e->dy + (int64_t)(r % C) * e->out.cols, *last = dy + (int64_t)(count(set) - 1) * F;
        for (int f = 0; f < F; f++)
            r_->same[(int64_t)r * F + f] = (set & MEAN ? dy[f] / N : 0) + (set & SUM ? last[f] : 0);
    }
    const double elements = (double)N * C * F;
    if (set & MAX) tg_parts(e, C, 2 * elements, find_winners, NULL);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, C = tg_per_in(e);
    const int64_t n = (int64_t)C * F, size = (int64_t)t->rows * F;
    const room *r = (const room *)e->room;
    const float *same = r->same + (int64_t)t->from * F;
    (void)dy;
    if (e->into != NULL) {
        tg_push(e, t, same);
        return;
    }
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    if (e->dx_add[0]) e->k->add_rows(1, size, same, 0, dx);
    else memcpy(dx, same, (size_t)size * sizeof *dx);
    if (!(kinds(e->attrs) & MAX)) return;
    for (int64_t i = 0, j = (int64_t)t->from * F; i < size; i++, j = j + 1 == n ? 0 : j + 1)
        if (r->node[j] == t->item + i / n) dx[i] += r->share[j];
}

const tg_op tg_op_pool = {
    .name = "pool",
    .doc = "Mean, maximum and sum over the nodes or the configurable nodes, next to each other.",
    .inputs = {{"x", TG_IN_NODES | TG_IN_CONFIG_NODES, 0}},
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, kind, 0, "mean|max|mean+max|sum|mean+sum|max+sum|mean+max+sum", "which of them")),
    .flags = TG_PER_GRAPH,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_INPUT, .forward = forward, .end = forward_end}},
    .backward = TG_BACKWARD({{.over = TG_OVER_INPUT, .begin = begin_back, .backward = backward}}),
};
