/* Graph norm (Cai et al. 2021), over the nodes of a config:
   o = x - mean_scale * mean, y = o / sqrt(mean(o^2) + eps) * weight + bias, all per column.
   Forward: statistics of all rows, then the map. Backward: sums over all rows, then the gradient, which with s1, s2 the
   sums of dy and dy o / std is
   dx = w / std (dy - s2 / N * o / std) - mean_scale / N * D,   D = w / std (s1 - s2 (1 - mean_scale) mean / std). */
#include "ops/op.h"

#include <math.h>
#include <string.h>

enum { WEIGHT, BIAS, MEAN_SCALE };
enum { MEAN, RSTD }; /* saved: of x, and of o */

typedef struct attrs {
    double eps;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const int cols = p->in[0].cols;
    (void)err;
    p->out = p->in[0];
    p->params[WEIGHT] = p->params[MEAN_SCALE] = (tg_param_spec){NULL, cols, 0, TG_INIT_CONSTANT, 1.0f};
    p->params[BIAS] = (tg_param_spec){NULL, cols, 0, TG_INIT_CONSTANT, 0.0f};
    p->saved[MEAN] = p->saved[RSTD] = (tg_shape){tg_pooled_space(p->in[0].space), cols};
    p->needs_in = 1;
    return TG_OK;
}

/* n: columns of all configs of a node. */
typedef struct room {
    int64_t n;
    tg_moments moments;              /* forward, (n) */
    float *centre, *factor, *offset; /* (n): what is subtracted, multiplied, added */
    float *slope;                    /* backward (n): what o is multiplied with */
    float *s1, *s2;                  /* backward (n): sums of dy, dy o / std, */
    float *part1, *part2;            /* and of a chunk */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int64_t n = r->n = (int64_t)tg_per_in(e) * e->in[0].cols;
    c->work += (back ? 12.0 : 8.0) * e->slate->N * (double)n;
    r->centre = tg_carve(c, TG_SHARED, n);
    r->factor = tg_carve(c, TG_SHARED, n);
    r->offset = tg_carve(c, TG_SHARED, n);
    if (!back) {
        r->moments = tg_moments_carve(c, n);
        return;
    }
    r->slope = tg_carve(c, TG_SHARED, n);
    r->s1 = tg_carve(c, TG_SHARED, n);
    r->s2 = tg_carve(c, TG_SHARED, n);
    r->part1 = tg_carve(c, TG_PARTIAL, n);
    r->part2 = tg_carve(c, TG_PARTIAL, n);
}

/* A tile is some whole nodes, or a part of one: rows of `width` columns from column `from` on. */
typedef struct part {
    int rows;
    int64_t from, width;
} part;

static part part_of(const tg_exec *e, const tg_tile *t) {
    const int C = tg_per_in(e), F = e->in[0].cols;
    return (part){t->rows < C ? 1 : t->rows / C, (int64_t)t->from * F,
                  (int64_t)(t->rows < C ? t->rows : C) * F};
}

static const float *rows_of_input(const tg_exec *e, const tg_tile *t) {
    return e->x[0] + t->row * e->in[0].cols;
}

/* ---- forward ---- */

static void measure(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const part p = part_of(e, t);
    (void)y;
    tg_moments_add(e, t, r->moments, p.from, p.rows, p.width, rows_of_input(e, t), r->n);
}

enum { BLOCK = TG_MOMENTS_BLOCK };

/* Mean and 1 / std of a block of columns out of the chunks'. */
static void finish_block(const tg_exec *e, void *context, int64_t block) {
    const room *r = (const room *)e->room;
    const int64_t begin = block * BLOCK, width = r->n - begin < BLOCK ? r->n - begin : BLOCK;
    const int F = e->in[0].cols;
    double mean[BLOCK], m2[BLOCK];
    const double count = tg_moments_merge(e, r->moments, begin, width, mean, m2);
    (void)context;
    for (int64_t i = 0; i < width; i++) {
        const double kept = 1.0 - (double)e->w[MEAN_SCALE][(begin + i) % F];
        const double square = fmax(m2[i], 0) / count + kept * kept * mean[i] * mean[i]; /* mean(o^2) */
        e->saved[MEAN][begin + i] = (float)mean[i];
        e->saved[RSTD][begin + i] = (float)(1.0 / sqrt(square + ((const attrs *)e->attrs)->eps));
    }
}

static void finish_statistics(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const double work = 8.0 * (double)tg_loop_of(e).chunks * (double)r->n;
    tg_parts(e, (r->n + BLOCK - 1) / BLOCK, work, finish_block, NULL);
}

static void begin_map(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    for (int64_t i = 0; i < r->n; i++) {
        r->centre[i] = e->w[MEAN_SCALE][i % F] * e->saved[MEAN][i];
        r->factor[i] = e->w[WEIGHT][i % F] * e->saved[RSTD][i];
        r->offset[i] = e->w[BIAS][i % F];
    }
}

static void map(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const part p = part_of(e, t);
    e->k->map_columns(p.rows, p.width, rows_of_input(e, t), r->centre + p.from, r->factor + p.from,
                      r->offset + p.from, y, 0);
}

/* ---- backward ---- */

static void begin_sums(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    for (int64_t i = 0; i < r->n; i++) r->centre[i] = e->w[MEAN_SCALE][i % F] * e->saved[MEAN][i];
}

static void sum(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const part p = part_of(e, t);
    float *s1 = tg_share(e, t, r->part1, r->n, r->s1, 0) + p.from,
          *s2 = tg_share(e, t, r->part2, r->n, r->s2, 0) + p.from;
    e->k->sum_columns(p.rows, p.width, dy, rows_of_input(e, t), r->centre + p.from, e->saved[RSTD] + p.from,
                      s1, s2);
}

/* Gradients of the parameters, and what the gradient of x is made of. */
static void finish_sums(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    tg_sum_shares(e, r->part1, r->n, r->s1, 0);
    tg_sum_shares(e, r->part2, r->n, r->s2, 0);
    for (int p = 0; p <= MEAN_SCALE; p++)
        if (e->dw[p] != NULL && !e->dw_add[p]) memset(e->dw[p], 0, (size_t)F * sizeof(float));
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t f = i % F;
        const float scale = e->w[MEAN_SCALE][f], mean = e->saved[MEAN][i], rstd = e->saved[RSTD][i];
        const float factor = e->w[WEIGHT][f] * rstd, inverse = 1.0f / (float)e->slate->N;
        const float down = factor * (r->s1[i] - r->s2[i] * (1.0f - scale) * mean * rstd);
        r->factor[i] = factor;
        r->slope[i] = factor * rstd * r->s2[i] * inverse;
        r->offset[i] = scale * inverse * down;
        if (e->dw[WEIGHT] != NULL) e->dw[WEIGHT][f] += r->s2[i];
        if (e->dw[BIAS] != NULL) e->dw[BIAS][f] += r->s1[i];
        if (e->dw[MEAN_SCALE] != NULL) e->dw[MEAN_SCALE][f] -= mean * down;
    }
}

static void gradient(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const part p = part_of(e, t);
    if (e->dx[0] == NULL) return;
    e->k->mix_columns(p.rows, p.width, dy, rows_of_input(e, t), r->factor + p.from, r->slope + p.from,
                      r->centre + p.from, r->offset + p.from, e->dx[0] + t->row * e->in[0].cols,
                      e->dx_add[0]);
}

const tg_op tg_op_graph_norm = {
    .name = "graph_norm",
    .doc = "Graph norm over the nodes of a config (Cai et al. 2021), as torch_geometric.nn.GraphNorm.",
    .inputs = {{"x", TG_IN_NODES, 0}},
    .params = {[WEIGHT] = "weight", [BIAS] = "bias", [MEAN_SCALE] = "mean_scale"},
    .attrs = TG_ATTRS(TG_REAL(attrs, eps, 1e-5, 0, 1, "added to the variance")),
    .most_rows = 256, /* statistics of several nodes at a time */
    .flags = TG_PER_GRAPH,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_INPUT, .forward = measure, .end = finish_statistics},
                {.over = TG_OVER_OUTPUT, .begin = begin_map, .forward = map}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_sums, .backward = sum, .end = finish_sums},
                     {.over = TG_OVER_OUTPUT, .backward = gradient}}),
};
