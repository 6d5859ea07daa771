/* Pooling over nodes: x(N,C,F) -> y(C, F * kinds), the kinds (mean, max, sum) side by side. */
#include "ops/op.h"

#include <string.h>

enum { KIND };
enum { MEAN = 1, MAX = 2, SUM = 4 };
enum { COLUMNS = 1024 };

static int kinds(const double *attr) {
    return (int)attr[KIND] + 1;
} /* choices are listed from bit set 1 on */

static int count(int set) { return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1); }

static tg_status plan(tg_op_plan *p, tg_error *err) {
    if (p->in[0].space != TG_SPACE_NODE_CONFIG)
        return tg_fail(err, TG_E_RECIPE, "the input must have one row per node and config");
    p->out = (tg_shape){TG_SPACE_CONFIG, p->in[0].cols * count(kinds(p->attr))};
    p->needs_in = kinds(p->attr) & MAX ? 1 : 0;
    return TG_OK;
}

static void workspace(const tg_exec *e, int back, int64_t *shared, int64_t *scratch) {
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    *shared = back ? 0 : loop.chunks * 2 * (int64_t)e->slate->C * e->in[0].cols;
    *scratch = 0;
}

/* partial of a chunk: sums(C,F), maxima(C,F) */
static void forward_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                          float *scratch) {
    const int64_t n = (int64_t)e->slate->C * e->in[0].cols;
    float *sum = (float *)context + chunk * 2 * n, *top = sum + n;
    (void)scratch;
    memcpy(sum, e->x[0] + begin * n, (size_t)n * sizeof *sum);
    memcpy(top, sum, (size_t)n * sizeof *sum);
    for (int64_t i = begin + 1; i < end; i++) {
        const float *x = e->x[0] + i * n;
        e->k->add_rows(1, n, x, 0, sum);
        for (int64_t j = 0; (kinds(e->attr) & MAX) && j < n; j++)
            top[j] = x[j] > top[j] || x[j] != x[j] ? x[j] : top[j];
    }
}

static void forward(const tg_exec *e) {
    const int C = e->slate->C, F = e->in[0].cols, set = kinds(e->attr), width = e->out.cols;
    const int64_t n = (int64_t)C * F;
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    tg_run_chunks(e, loop, 2.0 * (double)loop.items * (double)n, forward_chunk, e->shared);
    float *sum = e->shared, *top = sum + n;
    for (int64_t c = 1; c < loop.chunks; c++) {
        const float *other = e->shared + c * 2 * n;
        for (int64_t j = 0; j < n; j++) sum[j] += other[j];
        for (int64_t j = 0; j < n; j++)
            top[j] = other[n + j] > top[j] || other[n + j] != other[n + j] ? other[n + j] : top[j];
    }
    for (int c = 0; c < C; c++) {
        float *y = e->y + (int64_t)c * width;
        for (int kind = MEAN; kind <= SUM; kind <<= 1) {
            if (!(set & kind)) continue;
            const float *from = (kind == MAX ? top : sum) + (int64_t)c * F;
            for (int f = 0; f < F; f++) y[f] = kind == MEAN ? from[f] / (float)e->slate->N : from[f];
            y += F;
        }
    }
}

/* Gradient of channels [begin, end) of the flat (C,F) row, for all nodes: the maximum's share goes to the
   first node that has it. */
static void columns_backward(const tg_exec *e, int64_t begin, int64_t end) {
    const int F = e->in[0].cols, set = kinds(e->attr), width = e->out.cols;
    const int64_t n = (int64_t)e->slate->C * F;
    float share[COLUMNS], top[COLUMNS], best[COLUMNS];
    for (int64_t j = begin; j < end; j++) {
        const float *dy = e->dy + j / F * width + j % F;
        float *s = &share[j - begin], *t = &top[j - begin];
        *s = *t = 0;
        if (set & MEAN) *s += *dy / (float)e->slate->N, dy += F;
        if (set & MAX) *t = *dy, dy += F;
        if (set & SUM) *s += *dy;
        best[j - begin] = e->x[0] == NULL ? 0 : e->x[0][j];
    }
    for (int64_t i = 1; (set & MAX) && i < e->slate->N; i++)
        for (int64_t j = begin; j < end; j++)
            if (e->x[0][i * n + j] > best[j - begin]) best[j - begin] = e->x[0][i * n + j];
    for (int64_t i = 0; i < e->slate->N; i++)
        for (int64_t j = begin; j < end; j++) {
            float g = share[j - begin], *dx = &e->dx[0][i * n + j];
            if ((set & MAX) && e->x[0][i * n + j] == best[j - begin]) {
                g += top[j - begin];
                top[j - begin] = 0;
            }
            *dx = e->dx_add[0] ? *dx + g : g;
        }
}

static void backward_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                           float *scratch) {
    const int64_t n = (int64_t)e->slate->C * e->in[0].cols;
    (void)context, (void)chunk, (void)scratch;
    for (int64_t i = begin; i < end; i++)
        columns_backward(e, i * COLUMNS, (i + 1) * COLUMNS < n ? (i + 1) * COLUMNS : n);
}

static void backward(const tg_exec *e) {
    if (e->dx[0] == NULL) return;
    const int64_t n = (int64_t)e->slate->C * e->in[0].cols, blocks = (n + COLUMNS - 1) / COLUMNS;
    tg_run_chunks(e, (tg_loop){blocks, blocks, 1}, 2.0 * (double)e->slate->N * (double)n, backward_chunk,
                  NULL);
}

const tg_op tg_op_pool = {
    .name = "pool",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{"kind", 0, "mean|max|mean+max|sum|mean+sum|max+sum|mean+max+sum", 0}},
    .plan = plan,
    .workspace = workspace,
    .forward = forward,
    .backward = backward,
};
