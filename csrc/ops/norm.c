/* Instance norm costs no pass of its own: the op that makes an array accumulates its statistics while the rows
   are in cache, the op that reads it normalises on the way in. See op.h. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "ops/op.h"

enum { BLOCK = TG_MOMENTS_BLOCK };

/* Those `floats` further on. */
static tg_moments moved(tg_moments m, int64_t floats) {
    return (tg_moments){m.shift + floats, m.sum + floats, m.squares + floats};
}

void tg_moments_add(const tg_exec *e, const tg_tile *t, tg_moments m, int64_t from, int rows, int64_t width,
                    const float *x, int64_t ldx) {
    m = moved(m, t->chunk * e->partial_stride + from);
    if (t->item == t->chunk_begin) {
        const size_t size = (size_t)width * sizeof *x;
        memcpy(m.shift, x, size);
        memset(m.sum, 0, size);
        memset(m.squares, 0, size);
        x += ldx;
        rows--;
    }
    e->k->stats_add(rows, width, x, ldx, m.shift, m.sum, m.squares);
}

double tg_moments_merge(const tg_exec *e, tg_moments m, int64_t from, int64_t width, double *mean,
                        double *m2) {
    const tg_loop loop = tg_loop_of(e);
    double count = 0;
    memset(mean, 0, (size_t)width * sizeof *mean);
    memset(m2, 0, (size_t)width * sizeof *m2);
    for (int64_t c = 0; c < loop.chunks; c++) {
        const tg_moments of = moved(m, c * e->partial_stride + from);
        const double here = (double)(tg_chunk_start(loop.items, loop.chunks, c + 1) -
                                     tg_chunk_start(loop.items, loop.chunks, c));
        e->k->merge_stats(width, here, count, of.shift, of.sum, of.squares, mean, m2);
        count += here;
    }
    return count;
}

void tg_stats_tile(const tg_exec *e, const tg_tile *t, const float *y) {
    if (e->y_stats == NULL) return;
    const int cols = e->out.cols, C = tg_per_out(e), nodes = t->rows < C ? 1 : t->rows / C;
    tg_moments_add(e, t, e->moments, (int64_t)t->from * cols, nodes,
                   (int64_t)(t->rows < C ? t->rows : C) * cols, y, (int64_t)C * cols);
}

static void finish_block(const tg_exec *e, void *context, int64_t block) {
    const int64_t n = (int64_t)tg_per_out(e) * e->out.cols, begin = block * BLOCK,
                  width = n - begin < BLOCK ? n - begin : BLOCK;
    double mean[BLOCK], m2[BLOCK];
    const double count = tg_moments_merge(e, e->moments, begin, width, mean, m2);
    (void)context;
    for (int64_t i = 0; i < width; i++) {
        e->y_stats[begin + i] = (float)mean[i];
        e->y_stats[n + begin + i] = (float)(1.0 / sqrt((m2[i] > 0 ? m2[i] / count : 0) + 1e-5));
    }
}

void tg_stats_end(const tg_exec *e) {
    if (e->y_stats == NULL) return;
    const int64_t n = (int64_t)tg_per_out(e) * e->out.cols;
    tg_parts(e, (n + BLOCK - 1) / BLOCK, 8.0 * (double)tg_loop_of(e).chunks * (double)n, finish_block, NULL);
}

void tg_stats_of(const tg_exec *e, const float *x, int cols, float *stats) {
    const int64_t n = (int64_t)tg_per_in(e) * cols;
    double mean[BLOCK], m2[BLOCK];
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t width = n - begin < BLOCK ? n - begin : BLOCK;
        memset(mean, 0, sizeof mean);
        memset(m2, 0, sizeof m2);
        for (int64_t v = 0; v < e->slate->N; v++) /* Welford */
            for (int64_t i = 0; i < width; i++) {
                const double value = x[v * n + begin + i], delta = value - mean[i];
                mean[i] += delta / (double)(v + 1);
                m2[i] += delta * (value - mean[i]);
            }
        for (int64_t i = 0; i < width; i++) {
            stats[begin + i] = (float)mean[i];
            stats[n + begin + i] = (float)(1.0 / sqrt(m2[i] / e->slate->N + 1e-5));
        }
    }
}

/* ---- gradient ---- */

/* How many of `rows` rows from row `at` of the tile on belong to one node, and the first one's config. */
static int one_node(const tg_exec *e, const tg_tile *t, int at, int rows, int *config) {
    const int C = tg_per_in(e);
    *config = (t->from + at) % C;
    return rows < C - *config ? rows : C - *config;
}

void tg_normalize(const tg_exec *e, const tg_tile *t, int at, int rows, const float *x, float *y) {
    const int F = e->in[0].cols;
    const int64_t n = (int64_t)tg_per_in(e) * F;
    TG_ASSERT(e->x_stats != NULL && at >= 0 && at + rows <= t->rows);
    for (int config, here; rows > 0; at += here, rows -= here) {
        here = one_node(e, t, at, rows, &config);
        const int64_t size = (int64_t)here * F;
        const float *mean = e->x_stats + (int64_t)config * F;
        e->k->normalize(size, x, mean, mean + n, y);
        x += size, y += size;
    }
}

void tg_norm_tile(const tg_exec *e, const tg_tile *t, int at, int rows, const float *d, const float *x) {
    const int F = e->in[0].cols;
    float *sums = tg_of_chunk(e, t, e->norm_sums);
    const int64_t n = (int64_t)tg_per_in(e) * F;
    TG_ASSERT(e->dx[0] != NULL && at >= 0 && at + rows <= t->rows);
    float *dx = e->dx[0] + (t->row + at) * F;
    for (int config, here; rows > 0; at += here, rows -= here) {
        here = one_node(e, t, at, rows, &config);
        const int64_t from = (int64_t)config * F, size = (int64_t)here * F;
        const float *mean = e->x_stats + from;
        e->k->norm_back(size, d, x, mean, mean + n, sums + from, sums + n + from, dx, e->dx_add[0]);
        d += size, x += size, dx += size;
    }
}

typedef struct fix_context {
    const float *fix, *x;
    int64_t n;
    float *g;
} fix_context;

static void fix_node(const tg_exec *e, void *context, int64_t node) {
    const fix_context *f = context;
    float *g = f->g + node * f->n;
    e->k->fix(f->n, g, f->x + node * f->n, f->fix, f->n, g);
}

void tg_apply_fix(const tg_exec *e, const float *fix, const float *x, int cols, float *g) {
    TG_ASSERT(fix != NULL && x != NULL && g != NULL);
    fix_context f = {fix, x, (int64_t)tg_per_out(e) * cols, g};
    tg_parts(e, e->slate->N, 4.0 * (double)e->slate->N * (double)f.n, fix_node, &f);
}

/* With d the gradient of xh = (x - mean) / std:  dx = (d - mean d - xh mean(d xh)) / std, means over the nodes.
   What is left to subtract: mean(d) / std + mean(d xh) / std^2 * (x - mean). */
static void finish_fix(const tg_exec *e, void *context, int64_t part) {
    const fix_context *f = context;
    const int64_t n = f->n, begin = part * BLOCK, width = n - begin < BLOCK ? n - begin : BLOCK;
    const float inverse = 1.0f / (float)e->slate->N, *mean = e->x_stats + begin, *rstd = mean + n;
    float *s1 = f->g + begin, *s2 = s1 + n, *fix = (float *)f->fix + begin;
    for (int64_t c = 1; c < tg_loop_of(e).chunks; c++) {
        e->k->add_rows(1, width, s1 + c * e->partial_stride, 0, s1);
        e->k->add_rows(1, width, s2 + c * e->partial_stride, 0, s2);
    }
    for (int64_t i = 0; i < width; i++) {
        const float constant = rstd[i] * s1[i] * inverse, slope = rstd[i] * rstd[i] * s2[i] * inverse;
        fix[i] = e->dx_fix_add ? fix[i] + constant : constant;
        fix[n + i] = e->dx_fix_add ? fix[n + i] + slope : slope;
        fix[2 * n + i] = mean[i];
    }
}

void tg_norm_end(const tg_exec *e) {
    if (e->x_stats == NULL || e->dx[0] == NULL) return;
    const int64_t n = (int64_t)tg_per_in(e) * e->in[0].cols;
    float *sums = e->norm_sums; /* of the first chunk: may be overwritten */
    fix_context f = {e->dx_fix == NULL ? sums : e->dx_fix, NULL, n, sums};
    tg_parts(e, (n + BLOCK - 1) / BLOCK, 2.0 * (double)tg_loop_of(e).chunks * (double)n, finish_fix, &f);
    if (e->dx_fix == NULL) tg_apply_fix(e, sums, e->x[0], e->in[0].cols, e->dx[0]);
}
