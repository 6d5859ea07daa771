/* y = (x - mean) / sqrt(var + eps) per column over the configs of a slate, biased variance, no affine: what
   torch.nn.BatchNorm1d does in training and the sixth place's instance norm does to rows of configs.
   Forward: statistics of all rows, then the map. Backward: with s1, s2 the sums of dy and dy y over the C rows,
   dx = (dy - s1 / C - y s2 / C) / std. */
#include "ops/op.h"

#include <math.h>

enum { MEAN, RSTD }; /* saved */

typedef struct attrs {
    double eps;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = p->in[0];
    p->saved[MEAN] = p->saved[RSTD] = (tg_shape){TG_SPACE_SLATE, p->in[0].cols};
    p->needs_in = 1;
    return TG_OK;
}

typedef struct room {
    tg_moments moments;    /* forward, (F) */
    float *s1, *s2;        /* backward (F): sums of dy, of dy y, */
    float *part1, *part2;  /* and of a chunk */
    float *slope, *offset; /* backward (F): what x - mean is multiplied with, what is subtracted */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int F = e->in[0].cols;
    c->work += (back ? 12.0 : 8.0) * e->slate->C * (double)F;
    if (!back) {
        r->moments = tg_moments_carve(c, F);
        return;
    }
    r->s1 = tg_carve(c, TG_SHARED, F);
    r->s2 = tg_carve(c, TG_SHARED, F);
    r->part1 = tg_carve(c, TG_PARTIAL, F);
    r->part2 = tg_carve(c, TG_PARTIAL, F);
    r->slope = tg_carve(c, TG_SHARED, F);
    r->offset = tg_carve(c, TG_SHARED, F);
}

static const float *rows_of_input(const tg_exec *e, const tg_tile *t) {
    return e->x[0] + t->row * e->in[0].cols;
}

/* ---- forward ---- */

static void measure(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    (void)y;
    tg_moments_add(e, t, r->moments, 0, t->rows, F, rows_of_input(e, t), F);
}

enum { BLOCK = TG_MOMENTS_BLOCK };

/* Mean and 1 / std of a block of columns out of the chunks'. */
static void finish_block(const tg_exec *e, int begin, int width) {
    const room *r = (const room *)e->room;
    double mean[BLOCK], m2[BLOCK];
    const double count = tg_moments_merge(e, r->moments, begin, width, mean, m2);
    for (int f = 0; f < width; f++) {
        const double variance = fmax(m2[f], 0) / count;
        e->saved[MEAN][begin + f] = (float)mean[f];
        e->saved[RSTD][begin + f] = (float)(1.0 / sqrt(variance + ((const attrs *)e->attrs)->eps));
    }
}

static void finish_statistics(const tg_exec *e) {
    const int F = e->in[0].cols;
    for (int f = 0; f < F; f += BLOCK) finish_block(e, f, F - f < BLOCK ? F - f : BLOCK);
}

static void map(const tg_exec *e, const tg_tile *t, float *y) {
    e->k->map_columns(t->rows, e->in[0].cols, rows_of_input(e, t), e->saved[MEAN], e->saved[RSTD], NULL, y,
                      0);
}

/* ---- backward ---- */

static void sum(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    float *s1 = tg_share(e, t, r->part1, F, r->s1, 0), *s2 = tg_share(e, t, r->part2, F, r->s2, 0);
    e->k->sum_columns(t->rows, F, dy, rows_of_input(e, t), e->saved[MEAN], e->saved[RSTD], s1, s2);
}

static void finish_sums(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    const float inverse = 1.0f / (float)e->slate->C;
    tg_sum_shares(e, r->part1, F, r->s1, 0);
    tg_sum_shares(e, r->part2, F, r->s2, 0);
    for (int f = 0; f < F; f++) {
        const float rstd = e->saved[RSTD][f];
        r->slope[f] = rstd * rstd * r->s2[f] * inverse;
        r->offset[f] = rstd * r->s1[f] * inverse;
    }
}

static void gradient(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = e->in[0].cols;
    if (e->dx[0] == NULL) return;
    e->k->mix_columns(t->rows, F, dy, rows_of_input(e, t), e->saved[RSTD], r->slope, e->saved[MEAN],
                      r->offset, e->dx[0] + t->row * F, e->dx_add[0]);
}

const tg_op tg_op_config_norm = {
    .name = "config_norm",
    .doc =
        "Norm of every column over the configs of a slate, as torch.nn.BatchNorm1d in training, no affine.",
    .inputs = {{"x", TG_IN(CONFIG), 0}},
    .attrs = TG_ATTRS(TG_REAL(attrs, eps, 1e-5, 0, 1, "added to the variance")),
    .flags = TG_ACROSS_CONFIGS,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_INPUT, .forward = measure, .end = finish_statistics},
                {.over = TG_OVER_OUTPUT, .forward = map}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = sum, .end = finish_sums},
                             {.over = TG_OVER_OUTPUT, .backward = gradient}}),
};
