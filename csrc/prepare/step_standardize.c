/* Steps that shift and scale columns to mean 0 and standard deviation 1 over the training graphs, or say that
   configs stay as they are. */
#include "prepare/step.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "features/scaler.h"

enum { COUNT, MEAN, M2 };
enum { COLUMNS, CONSTANT, SCALE = CONSTANT };
enum { AUTO, ZERO };

static tg_rows rows_of(const tg_use *use, const tg_draft *d, tg_table t) {
    const tg_features *x = &d->table[t];
    return (tg_rows){x->x, x->rows, (int64_t)use->attr[COLUMNS], x->ld, tg_table_fields[t]};
}

static tg_status merge(tg_use *use, const tg_rows *rows, tg_error *err) {
    return tg_scaler_merge(use->state[COUNT].i, use->state[MEAN].f, use->state[M2].f, rows, err);
}

/* What was constant in training has no scale. As it is, it could be millions; `zero`: it becomes 0. */
static tg_status transform(const tg_use *use, const tg_rows *rows, int zero, float *y, tg_error *err) {
    const double *m2 = use->state[M2].f;
    double *scale = malloc((size_t)rows->F * sizeof *scale);
    if (scale == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to scale %lld columns", (long long)rows->F);
    tg_scaler_scale(scale, m2, use->state[COUNT].i[0], rows->F);
    tg_status status = tg_scaler_transform(y, rows, use->state[MEAN].f, scale, err);
    free(scale);
    for (int64_t i = 0; status == TG_OK && zero && i < rows->n; i++)
        for (int64_t f = 0; f < rows->F; f++)
            if (m2[f] == 0) y[i * rows->F + f] = 0;
    return status;
}

static tg_status finish(tg_use *use, tg_error *err) {
    if (use->state[COUNT].i[0] > 0) return TG_OK;
    return tg_fail_field(err, use->state[COUNT].name, "at least one row to fit to", "none");
}

static tg_status check(const tg_use *use, tg_error *err) {
    if (use->state[COUNT].i[0] < 1)
        return tg_fail_field(err, use->state[COUNT].name, "a count >= 1", "%lld",
                             (long long)use->state[COUNT].i[0]);
    for (int64_t f = 0; f < use->state[M2].n; f++)
        if (use->state[M2].f[f] < 0)
            return tg_fail_field(err, use->state[M2].name, "sums of squares >= 0", "%g (column %lld)",
                                 use->state[M2].f[f], (long long)f);
    return TG_OK;
}

static tg_status keep(tg_use *use, const char *const names[3], tg_error *err) {
    const int64_t columns = (int64_t)use->attr[COLUMNS];
    tg_status status = tg_step_keeps(use, names[0], 1, 1, err);
    if (status == TG_OK) status = tg_step_keeps(use, names[1], 0, columns, err);
    return status != TG_OK ? status : tg_step_keeps(use, names[2], 0, columns, err);
}

/* ---- standardize ---- */

static tg_status plan_nodes(tg_use *use, const tg_outline *before, tg_error *err) {
    static const char *const names[] = {"scaler.count", "scaler.mean", "scaler.m2"};
    const int stored = before->cols[TG_TABLE_NODE];
    if (before->learnt[TG_TABLE_NODE])
        return tg_step_wrong(use, err, "to come before every other step that learns from the node features");
    if (stored >= 0 && stored < use->attr[COLUMNS])
        return tg_step_wrong(use, err, "at most as many columns as the nodes have");
    return keep(use, names, err);
}

static void outline_nodes(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->cols[TG_TABLE_NODE] = (int)use->attr[COLUMNS];
    outline->changed[TG_TABLE_NODE] = outline->learnt[TG_TABLE_NODE] = 1;
}

static tg_status wide_enough(const tg_use *use, const tg_draft *d, tg_error *err) {
    const int cols = d->table[TG_TABLE_NODE].cols;
    if (cols >= use->attr[COLUMNS]) return TG_OK;
    return tg_fail_field(err, "node_feat", "as many columns as in training, or more", "%d of %d", cols,
                         (int)use->attr[COLUMNS]);
}

static tg_status fit_nodes(tg_use *use, const tg_draft *d, tg_error *err) {
    const tg_rows rows = rows_of(use, d, TG_TABLE_NODE);
    const tg_status status = wide_enough(use, d, err);
    return status == TG_OK ? merge(use, &rows, err) : status;
}

static tg_status apply_nodes(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_status status = wide_enough(use, d, err);
    if (status != TG_OK) return status;
    const tg_rows rows = rows_of(use, d, TG_TABLE_NODE);
    const int zero = use->attr[CONSTANT] == AUTO ? use->whole_configs : use->attr[CONSTANT] == ZERO;
    float *y = tg_draft_room(rows.n, rows.F, err);
    if (y == NULL) return err->code;
    return tg_draft_replace(d, TG_TABLE_NODE, transform(use, &rows, zero, y, err), y, (int)rows.F, 1);
}

const tg_prepare_step tg_step_standardize = {
    .name = "standardize",
    .doc = "Keep the first columns of the node features, with mean 0 and standard deviation 1 in training.",
    .attrs = TG_ATTRS(TG_ROW("columns", TG_ATTR_INT, 1, 0, 1, TG_MAX_COLUMNS, NULL, "this many columns stay"),
                      TG_ROW("constant", TG_ATTR_CHOICE, 0, AUTO, 0, 0, "auto|zero|keep",
                             "a column that was constant in training becomes 0, or keeps its difference to "
                             "that constant; auto: "
                             "0 if features of whole configs are prepared too")),
    .plan = plan_nodes,
    .outline = outline_nodes,
    .fit = fit_nodes,
    .finish = finish,
    .check = check,
    .apply = apply_nodes,
};

/* ---- standardize-configs ---- */

static tg_status plan_scaled(tg_use *use, const tg_outline *before, tg_error *err) {
    if (!before->changed[TG_TABLE_CONFIG]) return TG_OK;
    return tg_step_wrong(use, err, "to come before every other step that changes the config features");
}

static tg_status plan_configs(tg_use *use, const tg_outline *before, tg_error *err) {
    static const char *const names[] = {"config_scaler.count", "config_scaler.mean", "config_scaler.m2"};
    const tg_status status = plan_scaled(use, before, err);
    return status == TG_OK ? keep(use, names, err) : status;
}

static void outline_configs(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->cols[TG_TABLE_CONFIG] = (int)use->attr[COLUMNS];
    outline->changed[TG_TABLE_CONFIG] = outline->learnt[TG_TABLE_CONFIG] = 1;
}

static tg_status inspect_configs(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    if ((double)graph->T == use->attr[COLUMNS] || !(tables & 1u << TG_TABLE_CONFIG)) return TG_OK;
    return tg_fail_field(err, "config_feat", "as many columns as in training", "%lld instead of %d",
                         (long long)graph->T, (int)use->attr[COLUMNS]);
}

/* The configs before they are scaled: as they are, or ln(1 + x) of them, x < 0 counting as 0, in *own. */
static tg_status scale(const tg_use *use, tg_rows *rows, float **own, tg_error *err) {
    *own = NULL;
    if (use->attr[SCALE] == 0) return TG_OK;
    if ((*own = tg_draft_room(rows->n, rows->F, err)) == NULL) return err->code;
    float *y = *own;
#pragma omp parallel for schedule(static) num_threads(tg_threads(50.0 * (double)rows->n * (double)rows->F))
    for (int64_t i = 0; i < rows->n; i++)
        for (int64_t f = 0; f < rows->F; f++) {
            const float x = rows->x[i * rows->ld + f];
            y[i * rows->F + f] = (float)log1p(x < 0 ? 0.0 : (double)x);
        }
    rows->x = y;
    rows->ld = rows->F;
    return TG_OK;
}

static tg_status fit_configs(tg_use *use, const tg_draft *d, tg_error *err) {
    tg_rows rows = rows_of(use, d, TG_TABLE_CONFIG);
    float *own;
    tg_status status = scale(use, &rows, &own, err);
    if (status == TG_OK) status = merge(use, &rows, err);
    free(own);
    return status;
}

static tg_status apply_configs(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_CONFIG)) return TG_OK;
    tg_rows rows = rows_of(use, d, TG_TABLE_CONFIG);
    float *own, *y = NULL;
    tg_status status = scale(use, &rows, &own, err);
    if (status == TG_OK && (y = tg_draft_room(rows.n, rows.F, err)) == NULL) status = err->code;
    if (status == TG_OK) status = transform(use, &rows, 1, y, err);
    free(own);
    return tg_draft_replace(d, TG_TABLE_CONFIG, status, y, (int)rows.F, 1);
}

const tg_prepare_step tg_step_standardize_configs = {
    .name = "standardize-configs",
    .doc = "Features of configs with mean 0 and standard deviation 1 in training; a column that was constant "
           "is 0.",
    .attrs = TG_ATTRS(TG_ROW("columns", TG_ATTR_INT, 1, 0, 1, TG_MAX_COLUMNS, NULL, "T, as every graph has"),
                      TG_ROW("scale", TG_ATTR_CHOICE, 1, 0, 0, 0, "none|log",
                             "log: ln(1 + x) is taken before, negative numbers counting as 0")),
    .flags = TG_STEP_CONFIGS,
    .plan = plan_configs,
    .outline = outline_configs,
    .inspect = inspect_configs,
    .fit = fit_configs,
    .finish = finish,
    .check = check,
    .apply = apply_configs,
};

/* ---- scale-configs ---- */

static void outline_scaled(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->cols[TG_TABLE_CONFIG] = (int)use->attr[COLUMNS];
    outline->changed[TG_TABLE_CONFIG] = 1;
}

static tg_status apply_scaled(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_CONFIG)) return TG_OK;
    tg_rows rows = rows_of(use, d, TG_TABLE_CONFIG);
    float *y;
    const tg_status status = scale(use, &rows, &y, err);
    if (status != TG_OK || y == NULL) return status;
    return tg_draft_replace(d, TG_TABLE_CONFIG, TG_OK, y, (int)rows.F, 0);
}

const tg_prepare_step tg_step_scale_configs = {
    .name = "scale-configs",
    .doc = "Features of configs as they are, or their logarithms.",
    .attrs = TG_ATTRS(TG_ROW("columns", TG_ATTR_INT, 1, 0, 1, TG_MAX_COLUMNS, NULL, "T, as every graph has"),
                      TG_ROW("scale", TG_ATTR_CHOICE, 1, 0, 0, 0, "none|log",
                             "log: ln(1 + x), negative numbers counting as 0")),
    .flags = TG_STEP_CONFIGS,
    .plan = plan_scaled,
    .outline = outline_scaled,
    .inspect = inspect_configs,
    .apply = apply_scaled,
};
