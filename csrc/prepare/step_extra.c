/* Further node features, which a function of the user's own makes, behind those that the other steps leave. */
#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

#include "prepare/encoding.h"

enum { NODE };
enum { COUNT, MEAN, M2 };

static tg_encoding encoding_of(const tg_use *use) {
    const tg_step_state *s = use->state;
    return (tg_encoding){.columns = &use->columns[NODE],
                         .field = "extra",
                         .count = s[COUNT].i,
                         .mean = s[MEAN].f,
                         .m2 = s[M2].f};
}

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    (void)before;
    const tg_columns *columns = &use->columns[NODE];
    if (columns->n == 0) return tg_step_wrong(use, err, "at least one column");
    for (int c = 0; c < columns->n; c++)
        if (columns->column[c].kind == TG_KIND_CATEGORY)
            return tg_step_wrong(use, err, "numbers, logs and flags, not a category");
    tg_status status = tg_step_keeps(use, "extra.count", 1, 1, err);
    if (status == TG_OK) status = tg_step_keeps(use, "extra.mean", 0, columns->n, err);
    return status != TG_OK ? status : tg_step_keeps(use, "extra.m2", 0, columns->n, err);
}

static void outline(const tg_use *use, tg_outline *outline, int fitted) {
    (void)fitted;
    outline->changed[TG_TABLE_NODE] = outline->learnt[TG_TABLE_NODE] = 1;
    if (outline->cols[TG_TABLE_NODE] >= 0) outline->cols[TG_TABLE_NODE] += use->columns[NODE].n;
}

static tg_status inspect(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    const int columns = use->columns[NODE].n;
    if (graph->X == columns || !(tables & 1u << TG_TABLE_NODE)) return TG_OK;
    return tg_fail_field(err, "extra", "as many columns as in training", "%lld instead of %d",
                         (long long)graph->X, columns);
}

/* The row of `extra` that belongs to node n of the draft; -1 of a node that was made on the way. */
static int64_t row_of(const tg_draft *d, int64_t n) {
    const int64_t id = d->nodes == NULL ? n : d->nodes[n];
    return id < d->from->N ? id : -1;
}

/* The rows of all nodes that are stored, one after the other, in *own. */
static tg_status gather(const tg_draft *d, tg_features *rows, float **own, tg_error *err) {
    const int64_t X = d->from->X;
    int64_t n_rows = 0;
    if ((*own = tg_draft_room(d->N, X, err)) == NULL) return err->code;
    for (int64_t n = 0; n < d->N; n++) {
        const int64_t row = row_of(d, n);
        if (row >= 0) memcpy(*own + n_rows++ * X, d->from->extra + row * X, (size_t)X * sizeof **own);
    }
    *rows = (tg_features){n_rows, X, (int)X, *own, NULL, 0};
    return TG_OK;
}

static tg_status fit(tg_use *use, const tg_draft *d, tg_error *err) {
    const tg_encoding encoding = encoding_of(use);
    tg_features rows;
    float *own;
    tg_status status = gather(d, &rows, &own, err);
    if (status == TG_OK) status = tg_encoding_fit(&encoding, &rows, err);
    free(own);
    return status;
}

static tg_status finish(tg_use *use, tg_error *err) {
    const tg_encoding encoding = encoding_of(use);
    return tg_encoding_finish(&encoding, err);
}

static tg_status check(const tg_use *use, tg_error *err) {
    const tg_encoding encoding = encoding_of(use);
    if (tg_encoding_fits(&encoding)) return TG_OK;
    return tg_fail_field(err, "extra", "a count and sums of squares as a fit leaves them", "others");
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_encoding encoding = encoding_of(use);
    const tg_features *x = &d->table[TG_TABLE_NODE];
    const int X = use->columns[NODE].n, cols = x->cols + X;
    tg_features rows;
    float *own, *encoded = NULL, *y = NULL;
    tg_status status = gather(d, &rows, &own, err);
    if (status == TG_OK && (encoded = tg_draft_room(rows.rows, X, err)) == NULL) status = err->code;
    if (status == TG_OK) status = tg_encoding_apply(&encoding, &rows, encoded, err);
    if (status == TG_OK && (y = tg_draft_room(d->N, cols, err)) == NULL) status = err->code;
    if (status == TG_OK) {
        tg_features_copy(x, y, cols);
        const float *next = encoded;
        for (int64_t n = 0; n < d->N; n++) {
            float *to = y + n * cols + x->cols;
            if (row_of(d, n) < 0) memset(to, 0, (size_t)X * sizeof *to);
            else memcpy(to, next, (size_t)X * sizeof *to), next += X;
        }
    }
    free(own);
    free(encoded);
    return tg_draft_replace(d, TG_TABLE_NODE, status, y, cols, x->finite);
}

const tg_prepare_step tg_step_extra_columns = {
    .name = "extra-columns",
    .doc = "Append further features of nodes, which a function of the user's own makes: number and log (ln(1 "
           "+ x), x >= 0) with mean 0 and standard deviation 1 in training, flag as it is; what was constant "
           "in training, and nodes that other steps made, are 0.",
    .attrs = TG_ATTRS(TG_ROW("node", TG_ATTR_ITEMS, 1, 0, 0, 0, NULL, "the columns")),
    .plan = plan,
    .outline = outline,
    .inspect = inspect,
    .fit = fit,
    .finish = finish,
    .check = check,
    .apply = apply,
};
