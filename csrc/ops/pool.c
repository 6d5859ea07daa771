/* Pooling over nodes: x(N,C,F) -> y(C, F * kinds), x(N,F) -> y(1, F * kinds), the kinds (mean, max, sum) side by
   side. */
#include "ops/op.h"

#include <string.h>

enum { KIND };
enum { MEAN = 1, MAX = 2, SUM = 4 };

static int kinds(const double *attr) { /* choices are listed from bit set 1 on */
    return (int)attr[KIND] + 1;
}

static int count(int set) { return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1); }

static tg_status plan(tg_op_plan *p, tg_error *err) {
    if (!tg_has_nodes(p->in[0].space)) return tg_fail(err, TG_E_RECIPE, "the input must have rows of nodes");
    p->out = (tg_shape){p->in[0].space == TG_SPACE_NODE ? TG_SPACE_SLATE : TG_SPACE_CONFIG,
                        p->in[0].cols * count(kinds(p->attr))};
    p->needs_in = kinds(p->attr) & MAX ? 1 : 0;
    p->pulls = !p->needs_in; /* the gradient of a maximum needs all of x at once */
    return TG_OK;
}

/* Partial of forward: sums (C,F), maxima (C,F). Shared for backward: the same gradient for every node, as many
   rows of it as a tile has; with maxima its share (C,F) and the node it goes to (C,F). */
static tg_sizes sizes(const tg_exec *e, int back) {
    const int64_t n = (int64_t)tg_per_in(e) * e->in[0].cols, rows = e->tile_rows;
    const double work = 2.0 * (double)e->slate->N * (double)n;
    if (!back) return (tg_sizes){0, kinds(e->attr) & MAX ? 2 * n : n, 0, work};
    const int64_t shares = rows * e->in[0].cols > n ? rows * e->in[0].cols : n;
    return (tg_sizes){shares + (kinds(e->attr) & MAX ? 2 * n : 0), 0, 0, work};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, C = tg_per_in(e);
    const int64_t n = (int64_t)C * F, from = (int64_t)t->from * F;
    const float *x = tg_pull(e, t);
    float *sum = tg_partial(e, t) + from, *top = sum + n;
    (void)y;
    for (int at = 0; at < t->rows; at += C, x += n) {
        const int64_t size = (int64_t)(t->rows - at < C ? t->rows - at : C) * F;
        const int first = t->item + at / C == t->chunk_begin;
        if (first) memcpy(sum, x, (size_t)size * sizeof *sum);
        else e->k->add_rows(1, size, x, 0, sum);
        if (!(kinds(e->attr) & MAX)) continue;
        for (int64_t j = 0; j < size; j++) top[j] = first || x[j] > top[j] || x[j] != x[j] ? x[j] : top[j];
    }
}

static void forward_end(const tg_exec *e) {
    const int C = tg_per_in(e), F = e->in[0].cols, set = kinds(e->attr);
    const int64_t n = (int64_t)C * F, chunks = tg_loop_of(e).chunks;
    float *sum = e->partials, *top = sum + n;
    for (int64_t c = 1; c < chunks; c++) {
        const float *other = e->partials + c * e->partial_stride;
        e->k->add_rows(1, n, other, 0, sum);
        for (int64_t j = 0; (set & MAX) && j < n; j++)
            top[j] = other[n + j] > top[j] || other[n + j] != other[n + j] ? other[n + j] : top[j];
    }
    for (int c = 0; c < C; c++) {
        float *y = e->y + (int64_t)c * e->out.cols;
        for (int kind = MEAN; kind <= SUM; kind <<= 1) {
            if (!(set & kind)) continue;
            const float *from = (kind == MAX ? top : sum) + (int64_t)c * F;
            for (int f = 0; f < F; f++) y[f] = kind == MEAN ? from[f] / (float)e->slate->N : from[f];
            y += F;
        }
    }
}

static float *winners(const tg_exec *e) { /* (2,C,F): share of the maximum, its node */
    const int64_t n = (int64_t)tg_per_in(e) * e->in[0].cols, rows = (int64_t)e->tile_rows * e->in[0].cols;
    return e->shared + (rows > n ? rows : n);
}

/* Of config c: the first node that has the maximum. */
static void find_winners(const tg_exec *e, void *context, int64_t c) {
    const int F = e->in[0].cols, set = kinds(e->attr);
    const int64_t n = (int64_t)tg_per_in(e) * F;
    float *share = winners(e) + c * F;
    int32_t *node = (int32_t *)(share + n);
    const float *x = e->x[0] + c * F;
    (void)context;
    memcpy(share, e->dy + c * e->out.cols + (set & MEAN ? F : 0), (size_t)F * sizeof *share);
    memset(node, 0, (size_t)F * sizeof *node);
    for (int32_t v = 1; v < e->slate->N; v++)
        for (int f = 0; f < F; f++)
            if (x[v * n + f] > x[node[f] * n + f]) node[f] = v;
}

static void backward_begin(const tg_exec *e) {
    const int C = tg_per_in(e), F = e->in[0].cols, set = kinds(e->attr);
    const int rows = e->tile_rows > C ? e->tile_rows : C;
    for (int r = 0; r < rows; r++) {
        const float *dy = e->dy + (int64_t)(r % C) * e->out.cols, *last = dy + (int64_t)(count(set) - 1) * F;
        for (int f = 0; f < F; f++)
            e->shared[(int64_t)r * F + f] =
                (set & MEAN ? dy[f] / (float)e->slate->N : 0) + (set & SUM ? last[f] : 0);
    }
    const double elements = (double)e->slate->N * C * F;
    if (set & MAX) tg_parts(e, C, 2 * elements, find_winners, NULL);
}

static void begin(const tg_exec *e, int back) {
    if (back) backward_begin(e);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, C = tg_per_in(e);
    const int64_t n = (int64_t)C * F, size = (int64_t)t->rows * F;
    const float *same = e->shared + (int64_t)t->from * F;
    (void)dy;
    if (e->into != NULL) {
        tg_push(e, t, same);
        return;
    }
    float *dx = tg_dx(e, t);
    if (dx == NULL) return;
    if (e->dx_add[0]) e->k->add_rows(1, size, same, 0, dx);
    else memcpy(dx, same, (size_t)size * sizeof *dx);
    if (!(kinds(e->attr) & MAX)) return;
    const float *share = winners(e);
    const int32_t *node = (const int32_t *)(share + n);
    for (int64_t i = 0, j = (int64_t)t->from * F; i < size; i++, j = j + 1 == n ? 0 : j + 1)
        if (node[j] == t->item + i / n) dx[i] += share[j];
}

static void end(const tg_exec *e, int back) {
    if (!back) forward_end(e);
}

const tg_op tg_op_pool = {
    .name = "pool",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .reduces = 1,
    .attrs = {{"kind", 0, "mean|max|mean+max|sum|mean+sum|max+sum|mean+max+sum", 0}},
    .plan = plan,
    .sizes = sizes,
    .begin = begin,
    .forward = forward,
    .backward = backward,
    .end = end,
};
