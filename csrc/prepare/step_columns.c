/* Steps that change or choose columns of the node features without learning anything. */
#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

/* What the columns of node_feat must be for the list to name some of them. */
static tg_status named(const tg_columns *list, int cols, tg_error *err) {
    for (int i = 0; i < list->n; i++)
        if (list->number[i] >= cols)
            return tg_fail_field(err, "node_feat", "the columns that preprocessing names", "%d, without %d",
                                 cols, (int)list->number[i]);
    return TG_OK;
}

static tg_status plan(tg_use *use, const tg_columns *list, const tg_outline *before, tg_error *err) {
    const int cols = before->cols[TG_TABLE_NODE];
    if (cols >= 0 && named(list, cols, err) != TG_OK)
        return tg_step_wrong(use, err, "columns that the nodes have");
    return TG_OK;
}

/* ---- log-columns ---- */

enum { FORM, OFFSET, COLUMNS };
enum { SHIFTED, SIGNED };

static tg_status plan_log(tg_use *use, const tg_outline *before, tg_error *err) {
    return plan(use, &use->columns[COLUMNS], before, err);
}

static void outline_log(const tg_use *use, tg_outline *outline, int fitted) {
    (void)use, (void)fitted;
    outline->changed[TG_TABLE_NODE] = 1;
}

/* sign(x) ln(1 + |x|) */
static float signed_log(float x) { return (float)copysign(log1p(fabs((double)x)), (double)x); }

static tg_status apply_log(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const tg_columns *list = &use->columns[COLUMNS];
    const int cols = x->cols, every = list->number == NULL, is_signed = use->attr[FORM] == SIGNED;
    tg_status status = named(list, cols, err);
    float *y = status == TG_OK ? tg_draft_room(d->N, cols, err) : NULL;
    uint8_t *chosen = malloc((size_t)cols + 1);
    if (chosen == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for %d columns", cols);
    else if (status == TG_OK && y == NULL) status = err->code;
    if (status == TG_OK) {
        memset(chosen, every, (size_t)cols);
        for (int i = 0; i < list->n; i++) chosen[list->number[i]] = 1;
#pragma omp parallel for schedule(static) num_threads(tg_threads(50.0 * (double)d->N * cols))
        for (int64_t n = 0; n < d->N; n++)
            for (int f = 0; f < cols; f++) {
                const float value = x->x[n * x->ld + f];
                y[n * cols + f] = !chosen[f]  ? value
                                  : is_signed ? signed_log(value)
                                              : tg_step_log(value, use->attr[OFFSET]);
            }
    }
    free(chosen);
    return tg_draft_replace(d, TG_TABLE_NODE, status, y, cols, x->finite);
}

const tg_prepare_step tg_step_log_columns = {
    .name = "log-columns",
    .doc = "Logarithms of node features.",
    .attrs = TG_ATTRS(
        TG_ROW("form", TG_ATTR_CHOICE, 0, SHIFTED, 0, 0, "shifted|signed",
               "ln(x + offset), what is below 1 counting as 1; or sign(x) ln(1 + |x|) (second place of the "
               "Kaggle competition)"),
        TG_ROW("offset", TG_ATTR_INT, 0, 1, 0, 1e6, NULL,
               "of the shifted form: with 1 or more, 0 has a place of its own (third place 1, tenth 3)"),
        TG_ROW("columns", TG_ATTR_NUMBERS, 0, 0, 0, TG_MAX_COLUMNS - 1, NULL,
               "which columns; without the list, all")),
    .flags = TG_STEP_CHANGES,
    .plan = plan_log,
    .outline = outline_log,
    .apply = apply_log,
};

/* ---- range-columns ---- */

enum { RANGED, LOW, HIGH };

static tg_status plan_range(tg_use *use, const tg_outline *before, tg_error *err) {
    const tg_columns *low = &use->columns[LOW], *high = &use->columns[HIGH];
    const int n = use->columns[RANGED].n;
    if (low->n != n || high->n != n) return tg_step_wrong(use, err, "low and high of every column");
    for (int i = 0; i < n; i++)
        if (low->number[i] >= high->number[i])
            return tg_step_wrong(use, err, "each high to be above its low");
    return plan(use, &use->columns[RANGED], before, err);
}

static tg_status apply_range(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const tg_columns *list = &use->columns[RANGED];
    const int32_t *low = use->columns[LOW].number, *high = use->columns[HIGH].number;
    const tg_status status = named(list, x->cols, err);
    float *y = status == TG_OK ? tg_draft_room(d->N, x->cols, err) : NULL;
    if (y == NULL) return err->code;
    tg_features_copy(x, y, x->cols);
    for (int64_t n = 0; n < d->N; n++)
        for (int i = 0; i < list->n; i++) {
            const double value = (double)x->x[n * x->ld + list->number[i]];
            y[n * x->cols + list->number[i]] = (float)(2 * (value - low[i]) / (high[i] - low[i]) - 1);
        }
    return tg_draft_replace(d, TG_TABLE_NODE, TG_OK, y, x->cols, 0);
}

const tg_prepare_step tg_step_range_columns = {
    .name = "range-columns",
    .doc = "Scale node features from a range each, low to high, to -1 to 1; numbers outside it are not cut "
           "(fifth place of the Kaggle competition).",
    .attrs = TG_ATTRS(TG_ROW("columns", TG_ATTR_NUMBERS, 1, 0, 0, TG_MAX_COLUMNS - 1, NULL, "which columns"),
                      TG_ROW("low", TG_ATTR_NUMBERS, 1, 0, -1e6, 1e6, NULL, "of each, what becomes -1"),
                      TG_ROW("high", TG_ATTR_NUMBERS, 1, 0, -1e6, 1e6, NULL, "of each, what becomes 1")),
    .flags = TG_STEP_CHANGES,
    .plan = plan_range,
    .outline = outline_log,
    .apply = apply_range,
};

/* ---- take-columns ---- */

static tg_status plan_take(tg_use *use, const tg_outline *before, tg_error *err) {
    if (use->columns[0].n == 0) return tg_step_wrong(use, err, "at least one column");
    return plan(use, &use->columns[0], before, err);
}

static void outline_take(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->changed[TG_TABLE_NODE] = 1;
    outline->cols[TG_TABLE_NODE] = use->columns[0].n;
}

static tg_status apply_take(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const tg_columns *list = &use->columns[0];
    const tg_status status = named(list, x->cols, err);
    float *y = status == TG_OK ? tg_draft_room(d->N, list->n, err) : NULL;
    if (y == NULL) return err->code;
    for (int64_t n = 0; n < d->N; n++)
        for (int i = 0; i < list->n; i++) y[n * list->n + i] = x->x[n * x->ld + list->number[i]];
    return tg_draft_replace(d, TG_TABLE_NODE, TG_OK, y, list->n, x->finite);
}

const tg_prepare_step tg_step_take_columns = {
    .name = "take-columns",
    .doc = "Keep some columns of the node features, in the order of the list.",
    .attrs = TG_ATTRS(TG_ROW("columns", TG_ATTR_NUMBERS, 1, 0, 0, TG_MAX_COLUMNS - 1, NULL, "which columns")),
    .flags = TG_STEP_CHANGES,
    .plan = plan_take,
    .outline = outline_take,
    .apply = apply_take,
};
