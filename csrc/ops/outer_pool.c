/* Outer products of two rows, summed over the (configurable) nodes: a(K,[C,]F), b(K,[C,]G) -> y([C,]F G), row c
   the flattened A_c^T B_c; an input without configs is the same in all of them. With D(F,G) = dy of a config,
   da = b D^T and db = a D; an input without configs gets the sum over them. */
#include "ops/broadcast.h"

enum { A, B };

typedef struct attrs {
    int mean;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    enum { MOST = 1 << 20 };
    const int F = p->in[A].cols, G = p->in[B].cols;
    tg_space rows;
    const tg_status status = tg_join_inputs(p, &rows, err);
    if (status != TG_OK) return status;
    if ((int64_t)F * G > MOST)
        return tg_fail(err, TG_E_RECIPE, "%d columns of a and %d of b make more than %d products", F, G,
                       MOST);
    p->out = (tg_shape){tg_pooled_space(rows), F * G};
    p->needs_in = 1 << A | 1 << B;
    p->whole_nodes = 1;
    return TG_OK;
}

typedef struct room {
    int F, G, C;
    int64_t items, size; /* nodes, F G */
    float scale;         /* of the sum */
    float *part;         /* forward, of a chunk: the products of a config */
    float *d;            /* backward: (C,F,G) dy times the scale, */
    float *packed[2];    /* and by config, packed: D^T for da, D for db */
    int64_t step[2];     /* floats of these */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const tg_slate *s = e->slate;
    room *r = to;
    *r = (room){.F = e->in[A].cols, .G = e->in[B].cols, .C = tg_per_item(s, e->in[A].space)};
    if (tg_per_item(s, e->in[B].space) > r->C) r->C = tg_per_item(s, e->in[B].space);
    r->items = tg_items(s, e->in[A].space);
    r->size = (int64_t)r->F * r->G;
    r->scale = ((const attrs *)e->attrs)->mean && r->items > 0 ? 1.0f / (float)r->items : 1.0f;
    c->work += (back ? 4.0 : 2.0) * (double)r->items * r->C * (double)r->size;
    if (!back) {
        r->part = tg_carve(c, TG_PARTIAL, r->size);
        return;
    }
    r->step[A] = tg_packed(e->k, r->F, r->G);
    r->step[B] = tg_packed(e->k, r->G, r->F);
    r->d = tg_carve(c, TG_SHARED, r->C * r->size);
    for (int i = A; i <= B; i++) r->packed[i] = tg_carve(c, TG_SHARED, r->C * r->step[i]);
}

/* Rows of an input for a config, from a node on; the next node's is ld further on. */
typedef struct strided {
    const float *at;
    int64_t ld;
} strided;

static strided rows_of(const tg_exec *e, const float *array, int input, int64_t item, int config) {
    const int per = tg_per_item(e->slate, e->in[input].space), cols = e->in[input].cols;
    return (strided){array + (item * per + (per == 1 ? 0 : config)) * cols, (int64_t)per * cols};
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const strided a = rows_of(e, e->x[A], A, t->item, t->from), b = rows_of(e, e->x[B], B, t->item, t->from);
    (void)y;
    e->k->gemm_tn(t->rows, r->F, r->G, a.at, a.ld, b.at, b.ld, tg_share(e, t, r->part, r->size, e->y, 0),
                  r->G);
}

static void end(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_sum_shares(e, r->part, r->size, e->y, 0);
    for (int64_t i = 0; r->scale != 1.0f && i < r->C * r->size; i++) e->y[i] *= r->scale;
}

static void pack_config(const tg_exec *e, void *context, int64_t c) {
    const room *r = (const room *)e->room;
    float *d = r->d + c * r->size;
    (void)context;
    for (int64_t i = 0; i < r->size; i++) d[i] = e->dy[c * r->size + i] * r->scale;
    e->k->pack_nt(r->F, r->G, d, r->G, r->packed[A] + c * r->step[A]);
    e->k->pack_nn(r->G, r->F, d, r->G, r->packed[B] + c * r->step[B]);
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_parts(e, r->C, 4.0 * r->C * (double)r->size, pack_config, NULL);
}

/* The tile's rows of an array of input i: config by config they are too far apart for the hardware to foresee. */
static void fetch(const tg_exec *e, const tg_tile *t, int i, const float *array) {
    enum { LINE = 16 };
    const strided rows = rows_of(e, array, i, t->item, 0);
    const int64_t size = rows.ld * (t->rows / ((const room *)e->room)->C);
    for (int64_t j = 0; j < size; j += LINE) __builtin_prefetch(rows.at + j, 1, 2);
}

/* Whole nodes, config by config: those of a tile are in cache from one to the next. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int nodes = t->rows / r->C;
    (void)dy;
    for (int i = B; i >= A; i--) {
        const int n = e->in[i].cols, k = e->in[1 - i].cols;
        if (e->dx[i] == NULL) continue;
        fetch(e, t, 1 - i, e->x[1 - i]);
        fetch(e, t, i, e->dx[i]);
        for (int c = 0; c < r->C; c++) {
            const strided x = rows_of(e, e->x[1 - i], 1 - i, t->item, c),
                          dx = rows_of(e, e->dx[i], i, t->item, c);
            const int later = c > 0 && dx.ld == n; /* an input without configs */
            e->k->gemm(nodes, n, k, x.at, x.ld, r->packed[i] + c * r->step[i], (float *)dx.at, dx.ld, NULL,
                       later || e->dx_add[i]);
        }
    }
}

const tg_op tg_op_outer_pool = {
    .name = "outer_pool",
    .doc = "Outer products of the rows of two inputs, summed over the nodes or the configurable nodes.",
    .inputs = {{"a", TG_IN_NODES | TG_IN_CONFIG_NODES, 0}, {"b", TG_IN_NODES | TG_IN_CONFIG_NODES, 0}},
    .attrs = TG_ATTRS(TG_FLAG(attrs, mean, "divide by the number of rows")),
    .flags = TG_PER_GRAPH,
    .most_rows = 256, /* so that backward has several nodes of many configs */
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_WIDEST, .by_config = 1, .forward = forward, .end = end}},
    .backward = TG_BACKWARD({{.over = TG_OVER_WIDEST, .begin = begin_back, .backward = backward}}),
};
