/* y(rows,W) = the mean or sum over the T tokens of every row of x(rows, T W). */
#include "ops/op.h"

#include <string.h>

enum { MEAN, SUM };

typedef struct attrs {
    int tokens, kind;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->in[0].cols % a->tokens != 0)
        return tg_fail(err, TG_E_RECIPE, "%d columns cannot be cut into %d tokens", p->in[0].cols, a->tokens);
    p->out = (tg_shape){p->in[0].space, p->in[0].cols / a->tokens};
    return TG_OK;
}

typedef struct room {
    float *row; /* backward, of a thread: (T W), the gradient of one row */
} room;

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    c->work += 2.0 * (double)tg_rows(e->slate, e->out.space) * e->in[0].cols;
    if (back) ((room *)to)->row = tg_carve(c, TG_SCRATCH, e->in[0].cols);
}

static float share_of(const attrs *a) { return a->kind == MEAN ? 1.0f / (float)a->tokens : 1.0f; }

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    const int W = e->out.cols;
    const float *x = e->x[0] + t->row * e->in[0].cols, share = share_of(a);
    for (int i = 0; i < t->rows; i++, x += e->in[0].cols, y += W) {
        memset(y, 0, (size_t)W * sizeof *y);
        e->k->add_rows(a->tokens, W, x, W, y);
        for (int w = 0; w < W; w++) y[w] *= share;
    }
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const attrs *a = e->attrs;
    const int W = e->out.cols;
    const float share = share_of(a);
    float *row = tg_of_thread(e, t, ((const room *)e->room)->row);
    for (int i = 0; i < t->rows; i++, dy += W) {
        for (int at = 0; at < e->in[0].cols; at += W)
            for (int w = 0; w < W; w++) row[at + w] = dy[w] * share;
        tg_add_dx(e, 0, t->row + i, e->in[0].cols, row);
    }
}

const tg_op tg_op_pool_tokens = {
    .name = "pool_tokens",
    .doc = "Mean or sum over the tokens of each row.",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .attrs = {TG_INT(attrs, tokens, 6, 1, 65536, "tokens of a row"),
              TG_CHOICE(attrs, kind, MEAN, "mean|sum", "which of them")},
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}},
    .backward = {{.over = TG_OVER_OUTPUT, .backward = backward}},
};
