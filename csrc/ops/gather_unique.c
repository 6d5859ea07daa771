/* y(K,C,F): what was computed once for every unique cell, x(U,F), at all cells that equal it. */
#include "ops/op.h"

#include <string.h>

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){TG_SPACE_CONFIG_NODE_CONFIG, p->in[0].cols};
    return TG_OK;
}

typedef struct room {
    int32_t *begin, *cells; /* backward: (U+1), (K C): the cells of every unique one, in order */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    const int64_t cells = tg_rows(e->slate, TG_SPACE_CONFIG_NODE_CONFIG);
    c->work += 2.0 * (double)cells * e->out.cols;
    if (!back) return;
    r->begin = (int32_t *)tg_carve(c, TG_SHARED, (int64_t)e->slate->U + 2);
    r->cells = (int32_t *)tg_carve(c, TG_SHARED, cells);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->out.cols;
    for (int64_t cell = t->row; cell < t->row + t->rows; cell++, y += F)
        memcpy(y, e->x[0] + (int64_t)e->slate->unique_of[cell] * F, (size_t)F * sizeof *y);
}

/* Counting sort of the cells by their number. While it runs, begin[u + 1] is where the next cell of u goes. */
static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int64_t cells = tg_rows(e->slate, TG_SPACE_CONFIG_NODE_CONFIG);
    const int32_t *of = e->slate->unique_of, U = e->slate->U;
    memset(r->begin, 0, ((size_t)U + 2) * sizeof *r->begin);
    for (int64_t i = 0; i < cells; i++) r->begin[of[i] + 2]++;
    for (int32_t u = 0; u < U; u++) r->begin[u + 2] += r->begin[u + 1];
    for (int64_t i = 0; i < cells; i++) r->cells[r->begin[of[i] + 1]++] = (int32_t)i;
}

/* dx of a unique cell = the sum of dy over its cells, in order: they are its edges. */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = e->out.cols;
    tg_edges cells = {.n = F, .scale = 1, .base = e->dy, .stride = F};
    (void)dy;
    if (e->dx[0] == NULL) return;
    for (int64_t u = t->row; u < t->row + t->rows; u++) {
        cells.node = cells.edge = r->cells + r->begin[u];
        cells.count = r->begin[u + 1] - r->begin[u];
        cells.known = r->begin[e->slate->U] - r->begin[u];
        e->k->edge_sum(&cells, e->dx[0] + u * F, e->dx_add[0]);
    }
}

const tg_op tg_op_gather_unique = {
    .name = "gather_unique",
    .doc = "Rows of unique cells at all cells that equal them.",
    .inputs = {{"x", TG_IN(UNIQUE), 0}},
    .flags = TG_NEEDS_UNIQUE,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_INPUT, .begin = begin_back, .backward = backward}}),
};
