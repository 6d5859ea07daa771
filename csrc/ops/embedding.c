/* y(N, F + n D) = [x(N,F) | table rows of n indices], table (V,D). Source `opcode`: n = 1, ids outside the
   table take row 0; `layout`: n = 6 digits, row = digit + 2. */
#include "ops/op.h"

#include <string.h>

enum { SOURCE, ROWS, COLS };
enum { OPCODE, LAYOUT };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    int rows = (int)p->attr[ROWS], cols = (int)p->attr[COLS], layout = (int)p->attr[SOURCE] == LAYOUT;
    if (p->in[0].space != TG_SPACE_NODE)
        return tg_fail(err, TG_E_RECIPE, "the input must have one row per node");
    if (rows < 1 || rows > 65536 || cols < 1 || cols > 4096 || (layout && rows < TG_DIGIT_ROWS))
        return tg_fail(err, TG_E_RECIPE,
                       "rows must be in 1..65536 (layout: at least 8), cols in 1..4096; got %d, %d", rows,
                       cols);
    p->out = (tg_shape){TG_SPACE_NODE, p->in[0].cols + (layout ? 6 : 1) * cols};
    p->params[p->n_params++] = (tg_param_spec){"weight", rows, cols, TG_INIT_NORMAL, 1.0f};
    return TG_OK;
}

static tg_sizes sizes(const tg_exec *e, int back) {
    return (tg_sizes){.partial = back ? (int64_t)e->attr[ROWS] * (int64_t)e->attr[COLS] : 0,
                      .work = 2.0 * e->slate->N * e->out.cols};
}

static int table_row(const tg_exec *e, int64_t node, int i) {
    int row = (int)e->attr[SOURCE] == LAYOUT ? e->slate->layout[6 * node + i] + 2 : e->slate->opcode[node];
    return row >= 0 && row < (int)e->attr[ROWS] ? row : 0;
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const int F = e->in[0].cols, D = (int)e->attr[COLS], n = (e->out.cols - F) / D;
    for (int64_t v = t->row; v < t->row + t->rows; v++, y += e->out.cols) {
        memcpy(y, e->x[0] + v * F, (size_t)F * sizeof *y);
        for (int i = 0; i < n; i++)
            memcpy(y + F + i * D, e->w[0] + (int64_t)table_row(e, v, i) * D, (size_t)D * sizeof *y);
    }
}

/* dx = dy[:, :F]; dtable[row] += dy[:, F + i D ...] */
static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const int F = e->in[0].cols, D = (int)e->attr[COLS], n = (e->out.cols - F) / D;
    float *table = tg_share(e, t, 0, (int64_t)e->attr[ROWS] * (int64_t)e->attr[COLS], e->dw[0], e->dw_add[0]);
    for (int64_t v = t->row; v < t->row + t->rows; v++, dy += e->out.cols) {
        for (int j = 0; e->dx[0] != NULL && j < F; j++)
            e->dx[0][v * F + j] = e->dx_add[0] ? e->dx[0][v * F + j] + dy[j] : dy[j];
        for (int i = 0; i < n; i++)
            for (int d = 0; d < D; d++) table[(int64_t)table_row(e, v, i) * D + d] += dy[F + i * D + d];
    }
}

static void end(const tg_exec *e, int back) {
    if (back) tg_sum_shares(e, 0, (int64_t)e->attr[ROWS] * (int64_t)e->attr[COLS], e->dw[0]);
}

const tg_op tg_op_embedding = {
    .name = "embedding",
    .min_in = 1,
    .max_in = 1,
    .wants_table = -1,
    .attrs = {{"source", 0, "opcode|layout", 0}, {"rows", 120, NULL, 0}, {"cols", 16, NULL, 0}},
    .plan = plan,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .end = end,
};
