/* y(N, F + n D) = [x(N,F) | table rows of n indices], table (V,D). Source `opcode`: n = 1, ids outside the
   table take row 0; `layout`: n = 6 digits, row = digit + 2. With `max_norm` m the rows that are read are
   w min(1, m / |w|). */
#include "features/schema.h"
#include "ops/op.h"

#include <math.h>
#include <string.h>

enum { OPCODE, LAYOUT };
enum { WEIGHT };

typedef struct attrs {
    int source, rows, cols;
    double max_norm;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    const int layout = a->source == LAYOUT;
    if (layout && a->rows < TG_DIGIT_STATES)
        return tg_fail(err, TG_E_RECIPE, "rows must be at least %d for the source layout, got %d",
                       TG_DIGIT_STATES, a->rows);
    p->flags = layout ? TG_NEEDS_LAYOUT : TG_NEEDS_OPCODE;
    p->out = (tg_shape){TG_SPACE_NODE, p->in[0].cols + (layout ? TG_LAYOUT_DIGITS : 1) * a->cols};
    p->params[WEIGHT] = (tg_param_spec){NULL, a->rows, a->cols, TG_INIT_NORMAL, 1.0f};
    return TG_OK;
}

typedef struct room {
    int F, D, rows, n; /* n indices per node, each a row of D columns */
    float *table;      /* backward: the gradient of the rows that are read, of a chunk */
    float *scaled;     /* with max_norm: the rows that are read; backward: all of their gradient */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r = (room){.F = e->in[0].cols, .D = a->cols, .rows = a->rows};
    r->n = (e->out.cols - r->F) / r->D;
    c->work += 2.0 * e->slate->N * e->out.cols;
    if (back) r->table = tg_carve(c, TG_PARTIAL, tg_dw_floats(e, WEIGHT));
    if (a->max_norm > 0) r->scaled = tg_carve(c, TG_SHARED, tg_dw_floats(e, WEIGHT));
}

/* m / |w| of a row that is longer than m, else 1; the length itself goes to *length. */
static double scale_of(const tg_exec *e, const room *r, int row, double *length) {
    const double most = ((const attrs *)e->attrs)->max_norm;
    *length = sqrt(e->k->sum_squares(r->D, e->w[WEIGHT] + (int64_t)row * r->D));
    return *length > most ? most / *length : 1;
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    for (int row = 0; r->scaled != NULL && row < r->rows; row++) {
        double length;
        const float scale = (float)scale_of(e, r, row, &length);
        e->k->scale_rows(1, r->D, e->w[WEIGHT] + (int64_t)row * r->D, r->D, &scale,
                         r->scaled + (int64_t)row * r->D, r->D);
    }
}

static int table_row(const tg_exec *e, const room *r, int64_t node, int i) {
    const attrs *a = e->attrs;
    const int row =
        a->source == LAYOUT ? e->slate->layout[TG_LAYOUT_DIGITS * node + i] + 2 : e->slate->opcode[node];
    return row >= 0 && row < r->rows ? row : 0;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const room *r = (const room *)e->room;
    const int F = r->F, D = r->D;
    const float *table = r->scaled == NULL ? e->w[WEIGHT] : r->scaled;
    for (int64_t v = t->row; v < t->row + t->rows; v++, y += e->out.cols) {
        memcpy(y, e->x[0] + v * F, (size_t)F * sizeof *y);
        for (int i = 0; i < r->n; i++)
            memcpy(y + F + i * D, table + (int64_t)table_row(e, r, v, i) * D, (size_t)D * sizeof *y);
    }
}

/* dx = dy[:, :F]; dtable[row] += dy[:, F + i D ...] */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int F = r->F, D = r->D;
    float *table = e->dw[WEIGHT] == NULL ? NULL
                   : r->scaled == NULL   ? tg_share_dw(e, t, r->table, WEIGHT)
                                         : tg_share(e, t, r->table, tg_dw_floats(e, WEIGHT), r->scaled, 0);
    for (int64_t v = t->row; v < t->row + t->rows; v++, dy += e->out.cols) {
        tg_add_dx(e, 0, v, F, dy);
        for (int i = 0; table != NULL && i < r->n; i++)
            for (int d = 0; d < D; d++) table[(int64_t)table_row(e, r, v, i) * D + d] += dy[F + i * D + d];
    }
}

/* Through w m / |w|: dw = (g - w (w g) / |w|^2) m / |w|, from the gradient g of the rows that were read. */
static void unscale(const tg_exec *e, const room *r, int row) {
    double length, along = 0;
    const double scale = scale_of(e, r, row, &length);
    const float *w = e->w[WEIGHT] + (int64_t)row * r->D, *g = r->scaled + (int64_t)row * r->D;
    float *dw = e->dw[WEIGHT] + (int64_t)row * r->D;
    for (int d = 0; scale < 1 && d < r->D; d++) along += (double)w[d] * (double)g[d] / (length * length);
    for (int d = 0; d < r->D; d++)
        dw[d] = (float)(((double)g[d] - along * (double)w[d]) * scale) + (e->dw_add[WEIGHT] ? dw[d] : 0);
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    if (r->scaled == NULL) tg_sum_dw(e, r->table, WEIGHT);
    if (r->scaled == NULL || e->dw[WEIGHT] == NULL) return;
    tg_sum_shares(e, r->table, tg_dw_floats(e, WEIGHT), r->scaled, 0);
    for (int row = 0; row < r->rows; row++) unscale(e, r, row);
}

const tg_op tg_op_embedding = {
    .name = "embedding",
    .doc = "Table rows of a node's opcode, or of its layout digits, behind its columns. With max_norm, rows "
           "are scaled when they are read, as torch.nn.Embedding does; the table keeps its values, and "
           "gradients go through the scaling.",
    .inputs = {{"x", TG_IN(NODE), 0}},
    .params = {[WEIGHT] = "weight"},
    .attrs = TG_ATTRS(
        TG_CHOICE(attrs, source, 0, "opcode|layout", "what chooses the rows"),
        TG_INT(attrs, rows, TG_OPCODES, 1, 65536, "rows of the table; ids outside it take row 0"),
        TG_INT(attrs, cols, 16, 1, 4096, "columns of the table"),
        TG_REAL(attrs, max_norm, 0, 0, 1e30, "rows longer than this are scaled down to it; 0: none")),
    .flags = TG_NEEDS_OPCODE | TG_NEEDS_LAYOUT,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = backward, .end = end_back}}),
};
