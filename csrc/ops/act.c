#include "ops/act.h"

tg_param_spec tg_act_slope(int cols, int per_column) {
    return (tg_param_spec){NULL, per_column ? cols : 1, 0, TG_INIT_CONSTANT, 0.25f};
}

void tg_act_carve(const tg_exec *e, int back, tg_carver *c, int act, int param, int cols, tg_act *a) {
    *a = (tg_act){.kind = act, .cols = cols, .param = param};
    if (act != TG_ACT_PRELU) return;
    a->slope = tg_carve(c, TG_SHARED, cols);
    if (!back || e->dw[param] == NULL) return;
    a->sum = tg_carve(c, TG_SHARED, cols);
    a->part = tg_carve(c, TG_PARTIAL, cols);
}

static int one_for_all(const tg_exec *e, const tg_act *a) { return e->params[a->param].rows == 1; }

void tg_act_begin(const tg_exec *e, const tg_act *a) {
    if (a->kind != TG_ACT_PRELU) return;
    const float *w = e->w[a->param];
    for (int i = 0; i < a->cols; i++) a->slope[i] = w[one_for_all(e, a) ? 0 : i];
}

void tg_act_forward(const tg_exec *e, const tg_act *a, int rows, const float *x, float *y) {
    if (a->kind == TG_ACT_PRELU) e->k->bend(rows, a->cols, 0, x, a->slope, y);
    else e->k->act((int64_t)rows * a->cols, a->kind, x, y);
}

float *tg_act_share(const tg_exec *e, const tg_tile *t, const tg_act *a) {
    return a->sum == NULL ? NULL : tg_share(e, t, a->part, a->cols, a->sum, 0);
}

void tg_act_backward(const tg_exec *e, const tg_act *a, int rows, const float *dy, const float *x, float *d,
                     float *share) {
    if (a->kind == TG_ACT_PRELU) e->k->bend_back(rows, a->cols, 0, dy, x, a->slope, d, 0, share);
    else if (d != NULL) e->k->act_grad((int64_t)rows * a->cols, a->kind, dy, x, d);
}

void tg_act_end(const tg_exec *e, const tg_act *a) {
    if (a->sum == NULL) return;
    float *dw = e->dw[a->param];
    const int add = e->dw_add[a->param];
    tg_sum_shares(e, a->part, a->cols, a->sum, 0);
    if (!one_for_all(e, a)) {
        e->k->copy_rows(1, a->cols, a->sum, 0, dw, 0, add);
        return;
    }
    double total = add ? (double)dw[0] : 0;
    for (int i = 0; i < a->cols; i++) total += (double)a->sum[i];
    dw[0] = (float)total;
}
