/* Linear attention over the nodes of a config (Katharopoulos et al. 2020), in heads of D and V columns:
   S(D,V) = sum over nodes of phi(k) v^T, z(D) = that of phi(k), y = phi(q) S / (phi(q) z + eps), phi = elu + 1; without
   `normalise` y = phi(q) S. The sums first, then the map; backward likewise, with the sums dS, dz of what phi(q) got.
   Phases go by config: a tile is some nodes of one config, and S belongs to all of its rows. */
#include "ops/heads.h"

enum { Q, K, V };
enum { SUMS, TOTALS }; /* saved: S, z */

typedef struct attrs {
    int heads, normalise;
    double eps;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    enum { MOST = 1 << 24 };
    const attrs *a = p->attrs;
    const int wide = p->in[Q].cols, values = p->in[V].cols;
    const tg_space one = tg_pooled_space(p->in[Q].space);
    tg_status status = tg_check_same_rows(p, err);
    if (status == TG_OK) status = tg_check_heads(p, a->heads, err);
    if (status != TG_OK) return status;
    if ((int64_t)wide * (values / a->heads) > MOST)
        return tg_fail(err, TG_E_RECIPE, "heads of %d and %d columns are too wide: take more heads",
                       wide / a->heads, values / a->heads);
    p->out = (tg_shape){p->in[Q].space, values};
    p->saved[SUMS] = (tg_shape){one, wide * (values / a->heads)};
    if (a->normalise) p->saved[TOTALS] = (tg_shape){one, wide};
    p->needs_in = 1 << Q | 1 << K | 1 << V;
    p->needs_out = a->normalise;
    return TG_OK;
}

/* Columns of all heads: q and k `wide`, v and y `values`; `size`: floats of S in all heads. */
typedef struct room {
    int heads, D, V, wide, values, normalise;
    int64_t size, panels, turned;  /* of one head: packed (D->V), (V->D) */
    float *phi, *inverse;          /* of a thread: (rows,wide), (rows) 1 / (phi(q) z + eps) */
    float *packed, *packed_turned; /* of a thread: S or dS of a config, every head packed (D->V), (V->D) */
    float *part, *part_totals;     /* of a chunk: S, z or their gradients */
    float *sums, *totals;          /* backward: dS, dz of all configs */
    float *g, *d, *slope;          /* backward, of a thread: (rows,values), (rows,D), (rows) */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    const int64_t rows = e->tile_rows, configs = tg_per_in(e);
    *r = (room){.heads = a->heads, .wide = e->in[Q].cols, .values = e->in[V].cols, .normalise = a->normalise};
    r->D = r->wide / r->heads;
    r->V = r->values / r->heads;
    r->size = (int64_t)r->wide * r->V;
    r->panels = tg_packed(e->k, r->V, r->D);
    r->turned = tg_packed(e->k, r->D, r->V);
    c->work +=
        (back ? 5.0 : 2.0) * (double)tg_rows(e->slate, e->out.space) * (2.0 * (double)r->size + 8 * r->wide);
    r->phi = tg_carve(c, TG_SCRATCH, rows * r->wide);
    r->inverse = tg_carve(c, TG_SCRATCH, rows);
    r->packed = tg_carve(c, TG_SCRATCH, r->heads * r->panels);
    r->part = tg_carve(c, TG_PARTIAL, r->size);
    r->part_totals = tg_carve(c, TG_PARTIAL, r->wide);
    if (!back) return;
    r->packed_turned = tg_carve(c, TG_SCRATCH, r->heads * r->turned);
    r->sums = tg_carve(c, TG_SHARED, configs * r->size);
    r->totals = tg_carve(c, TG_SHARED, configs * r->wide);
    r->g = tg_carve(c, TG_SCRATCH, rows * r->values);
    r->d = tg_carve(c, TG_SCRATCH, rows * r->D);
    r->slope = tg_carve(c, TG_SCRATCH, rows);
}

/* The tile's rows of an array with rows of the op's space, `cols` wide; the next row is ld further on. */
typedef struct strided {
    const float *at;
    int64_t ld;
} strided;

static strided rows_of(const tg_tile *t, const float *array, int cols) {
    return (strided){array + t->row * cols, (int64_t)t->stride * cols};
}

/* phi(x) of the tile's rows in scratch; with `sum`, its sum over the rows is added there. */
static float *features(const tg_exec *e, const tg_tile *t, int input, float *sum) {
    const room *r = (const room *)e->room;
    const strided x = rows_of(t, e->x[input], r->wide);
    float *phi = tg_of_thread(e, t, r->phi);
    e->k->elu_one(t->rows, r->wide, x.at, x.ld, phi, sum);
    return phi;
}

/* sums += phi^T v, head by head */
static void add_products(const tg_exec *e, const tg_tile *t, const float *phi, strided v, float *sums) {
    const room *r = (const room *)e->room;
    for (int h = 0; h < r->heads; h++)
        e->k->gemm_tn(t->rows, r->D, r->V, phi + h * r->D, r->wide, v.at + h * r->V, v.ld,
                      sums + (int64_t)h * r->D * r->V, r->V);
}

/* The tile's config's (D,V) of every head packed for products with rows of D, and with rows of V: by the first tile of a
   chunk, whose other tiles run on the same thread. */
static const float *pack(const tg_exec *e, const tg_tile *t, const float *sums, int turned) {
    const room *r = (const room *)e->room;
    const int64_t step = turned ? r->turned : r->panels;
    float *b = tg_of_thread(e, t, turned ? r->packed_turned : r->packed);
    for (int h = 0; t->first && h < r->heads; h++) {
        const float *s = sums + t->from * r->size + (int64_t)h * r->D * r->V;
        if (turned) e->k->pack_nt(r->D, r->V, s, r->V, b + h * step);
        else e->k->pack_nn(r->V, r->D, s, r->V, b + h * step);
    }
    return b;
}

static const float *totals_of(const tg_exec *e, const tg_tile *t, int head) {
    const room *r = (const room *)e->room;
    return e->saved[TOTALS] + (int64_t)t->from * r->wide + head * r->D;
}

/* 1 / (phi(q) z + eps) of the tile's rows in a head */
static float *inverses(const tg_exec *e, const tg_tile *t, const float *phi, int head) {
    const room *r = (const room *)e->room;
    const float eps = (float)((const attrs *)e->attrs)->eps;
    float *inverse = tg_of_thread(e, t, r->inverse);
    e->k->row_dots(t->rows, r->D, phi + head * r->D, r->wide, totals_of(e, t, head), 0, inverse);
    for (int i = 0; i < t->rows; i++) inverse[i] = 1.0f / (inverse[i] + eps);
    return inverse;
}

/* ---- forward ---- */

static void collect(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    float *sums = tg_share(e, t, r->part, r->size, e->saved[SUMS], 0), *totals = NULL;
    (void)y;
    if (r->normalise) totals = tg_share(e, t, r->part_totals, r->wide, e->saved[TOTALS], 0);
    add_products(e, t, features(e, t, K, totals), rows_of(t, e->x[V], r->values), sums);
}

static void end_collect(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_shares(e, r->part, r->size, e->saved[SUMS], 0);
    if (r->normalise) tg_sum_shares(e, r->part_totals, r->wide, e->saved[TOTALS], 0);
}

static void apply(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const float *packed = pack(e, t, e->saved[SUMS], 0);
    float *phi = features(e, t, Q, NULL);
    for (int h = 0; h < r->heads; h++) {
        float *f = phi + h * r->D;
        if (r->normalise) e->k->scale_rows(t->rows, r->D, f, r->wide, inverses(e, t, phi, h), f, r->wide);
        e->k->gemm(t->rows, r->V, r->D, f, r->wide, packed + h * r->panels, y + h * r->V,
                   (int64_t)t->stride * r->values, NULL, 0);
    }
}

/* ---- backward ---- */

/* Gradient g(rows,V) of phi(q) S in a head, from dy; and that of phi(q) z in `slope`: -(dy y) / (phi(q) z + eps) */
static strided numerator(const tg_exec *e, const tg_tile *t, const float *phi, const float *dy, int head,
                         float *slope) {
    const room *r = (const room *)e->room;
    const strided out = {dy + head * r->V, (int64_t)t->stride * r->values}, y = rows_of(t, e->y, r->values);
    float *g = tg_of_thread(e, t, r->g) + head * r->V;
    const float *inverse = inverses(e, t, phi, head);
    e->k->row_dots(t->rows, r->V, out.at, out.ld, y.at + head * r->V, y.ld, slope);
    for (int i = 0; i < t->rows; i++) slope[i] *= -inverse[i];
    e->k->scale_rows(t->rows, r->V, out.at, out.ld, inverse, g, r->values);
    return (strided){g, r->values};
}

/* dS += phi(q)^T g, dz += phi(q)^T slope; dq = (g S^T + slope z^T) phi'(q) */
static void back_of_map(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const float *packed = e->dx[Q] == NULL ? NULL : pack(e, t, e->saved[SUMS], 1);
    const float *phi = features(e, t, Q, NULL);
    float *sums = tg_share(e, t, r->part, r->size, r->sums, 0),
          *totals = tg_share(e, t, r->part_totals, r->wide, r->totals, 0),
          *slope = r->normalise ? tg_of_thread(e, t, r->slope) : NULL, *d = tg_of_thread(e, t, r->d);
    for (int h = 0; h < r->heads; h++) {
        const float *f = phi + h * r->D, *z = NULL;
        strided g = {dy + h * r->V, (int64_t)t->stride * r->values};
        if (r->normalise) {
            g = numerator(e, t, phi, dy, h, slope);
            z = totals_of(e, t, h);
            e->k->weigh_rows(t->rows, r->D, f, r->wide, slope, totals + h * r->D);
        }
        e->k->gemm_tn(t->rows, r->D, r->V, f, r->wide, g.at, g.ld, sums + (int64_t)h * r->D * r->V, r->V);
        if (e->dx[Q] == NULL) continue;
        const strided dq = rows_of(t, e->dx[Q], r->wide);
        e->k->gemm(t->rows, r->D, r->V, g.at, g.ld, packed + h * r->turned, d, r->D, NULL, 0);
        e->k->elu_one_back(t->rows, r->D, d, r->D, f, r->wide, slope, z, (float *)dq.at + h * r->D, dq.ld,
                           tg_adds_dx(e, Q, 0));
    }
}

static void end_sums(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_shares(e, r->part, r->size, r->sums, 0);
    if (r->normalise) tg_sum_shares(e, r->part_totals, r->wide, r->totals, 0);
}

/* dv = phi(k) dS; dk = (v dS^T + dz^T) phi'(k) */
static void back_of_sums(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const float *packed = pack(e, t, r->sums, 0), *turned = pack(e, t, r->sums, 1),
                *phi = features(e, t, K, NULL);
    const strided v = rows_of(t, e->x[V], r->values);
    const int64_t ld = (int64_t)t->stride;
    float *d = tg_of_thread(e, t, r->d);
    (void)dy;
    for (int h = 0; h < r->heads; h++) {
        const float *f = phi + h * r->D, *z = r->normalise ? r->totals + t->from * r->wide + h * r->D : NULL;
        if (e->dx[V] != NULL)
            e->k->gemm(t->rows, r->V, r->D, f, r->wide, packed + h * r->panels,
                       e->dx[V] + t->row * r->values + h * r->V, ld * r->values, NULL,
                       tg_adds_dx(e, V, 1 << Q));
        if (e->dx[K] == NULL) continue;
        e->k->gemm(t->rows, r->D, r->V, v.at + h * r->V, v.ld, turned + h * r->turned, d, r->D, NULL, 0);
        e->k->elu_one_back(t->rows, r->D, d, r->D, f, r->wide, NULL, z,
                           e->dx[K] + t->row * r->wide + h * r->D, ld * r->wide,
                           tg_adds_dx(e, K, 1 << Q | 1 << V));
    }
}

const tg_op tg_op_linear_attention = {
    .name = "linear_attention",
    .doc = "Linear attention over the nodes of a config, features elu + 1 (Katharopoulos et al. 2020).",
    .inputs = {{"q", TG_IN_NODES, 0}, {"k", TG_IN_NODES, 0}, {"v", TG_IN_NODES, 0}},
    .attrs = TG_ATTRS(TG_INT(attrs, heads, 1, 1, 4096, "heads, side by side in the columns"),
                      TG_FLAG_ON(attrs, normalise, "divide by phi(q) times the sum of phi(k)"),
                      TG_REAL(attrs, eps, 1e-6, 0, 1, "added to what is divided by")),
    .flags = TG_PER_GRAPH,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_INPUT, .by_config = 1, .forward = collect, .end = end_collect},
                {.over = TG_OVER_OUTPUT, .by_config = 1, .forward = apply}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .by_config = 1, .backward = back_of_map, .end = end_sums},
                     {.over = TG_OVER_INPUT, .by_config = 1, .backward = back_of_sums}}),
};
