/* The features of any schema as a model takes them, table by table. */
#include "prepare/step.h"

#include <stdio.h>
#include <string.h>

#include "prepare/encoding.h"

/* The first three attributes are the columns of the tables. */
enum { UNKNOWN = TG_TABLES, LEVELS };
enum { UNKNOWN_ERROR, UNKNOWN_ZERO };
/* count (3), one for each table; all others for the columns of all tables, one after the other */
enum { COUNT, MEAN, M2, SEEN, LEVEL_COUNT, LEVEL_VALUES };

static int values_of(const tg_columns *columns) {
    int n = 0;
    for (int c = 0; c < columns->n; c++) n += columns->column[c].n_values;
    return n;
}

static tg_encoding part_of(const tg_use *use, int table) {
    int64_t column = 0, value = 0;
    for (int t = 0; t < table; t++) {
        column += use->columns[t].n;
        value += values_of(&use->columns[t]);
    }
    const int most = (int)use->attr[LEVELS];
    const tg_step_state *s = use->state;
    return (tg_encoding){&use->columns[table],
                         tg_table_fields[table],
                         most,
                         use->attr[UNKNOWN] == UNKNOWN_ZERO,
                         0,
                         s[COUNT].i + table,
                         s[SEEN].i + value,
                         s[LEVEL_COUNT].i + column,
                         s[MEAN].f + column,
                         s[M2].f + column,
                         s[LEVEL_VALUES].f + column * most};
}

/* Nodes have at least one column, of 0. */
static int width(const tg_encoding *part, int table) {
    const int cols = tg_encoding_width(part);
    return cols == 0 && table == TG_TABLE_NODE ? 1 : cols;
}

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    int64_t columns = 0, values = 0;
    for (int t = 0; t < TG_TABLES; t++) {
        if (before->changed[t] || before->has_layout)
            return tg_step_wrong(use, err, "to come before every other step that reads or changes features");
        columns += use->columns[t].n;
        values += values_of(&use->columns[t]);
    }
    const int64_t most = (int64_t)use->attr[LEVELS];
    if (columns * (most + 1) + values > TG_MAX_COLUMNS)
        return tg_step_wrong(use, err, "columns, values of categories and levels for at most 65536 columns");
    tg_status status = tg_step_keeps(use, "encode.count", 1, TG_TABLES, err);
    if (status == TG_OK) status = tg_step_keeps(use, "encode.mean", 0, columns, err);
    if (status == TG_OK) status = tg_step_keeps(use, "encode.m2", 0, columns, err);
    if (status == TG_OK) status = tg_step_keeps(use, "encode.seen", 1, values, err);
    if (status == TG_OK) status = tg_step_keeps(use, "encode.level_count", 1, columns, err);
    if (status == TG_OK) status = tg_step_keeps(use, "encode.levels", 0, columns * most, err);
    return status;
}

static void outline(const tg_use *use, tg_outline *outline, int fitted) {
    for (int t = 0; t < TG_TABLES; t++) {
        const tg_encoding part = part_of(use, t);
        outline->cols[t] = fitted || part.most == 0 ? width(&part, t) : -1;
        outline->changed[t] = outline->learnt[t] = 1;
    }
}

/* Whether a graph has the columns of the schema. */
static tg_status inspect(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    const int64_t found[TG_TABLES] = {graph->F, graph->G, graph->T};
    for (int t = 0; t < TG_TABLES; t++) {
        const tg_columns *columns = &use->columns[t];
        if (!(tables >> t & 1) || found[t] == columns->n) continue;
        char expected[160];
        if (found[t] < columns->n)
            snprintf(expected, sizeof expected,
                     "%d column%s, as the schema has: '%.60s' is the first that is missing", columns->n,
                     TG_S(columns->n), columns->column[found[t]].name);
        else
            snprintf(expected, sizeof expected, "%d column%s, as the schema has", columns->n,
                     TG_S(columns->n));
        return tg_fail_field(err, tg_table_fields[t], expected, "%lld", (long long)found[t]);
    }
    return TG_OK;
}

/* Whether the values of a table follow the rules of these columns, as the graph was checked by such columns. Numbers
   follow from any of the others. */
static int is_checked(const tg_columns *columns, const uint8_t *kinds) {
    int fine = kinds != NULL;
    for (int c = 0; fine && c < columns->n; c++)
        fine = columns->column[c].kind == TG_KIND_NUMBER || columns->column[c].kind == kinds[c];
    return fine;
}

static tg_status fit(tg_use *use, const tg_draft *d, tg_error *err) {
    tg_status status = TG_OK;
    for (int t = 0; status == TG_OK && t < TG_TABLES; t++) {
        tg_encoding part = part_of(use, t);
        if (part.columns->n == 0 || !tg_wants(d, t)) continue;
        part.checked = is_checked(part.columns, d->from->checked[t]);
        status = tg_encoding_fit(&part, &d->table[t], err);
    }
    return status;
}

static tg_status finish(tg_use *use, tg_error *err) {
    tg_status status = TG_OK;
    for (int t = 0; status == TG_OK && t < TG_TABLES; t++) {
        const tg_encoding part = part_of(use, t);
        status = tg_encoding_finish(&part, err);
    }
    return status;
}

static tg_status check(const tg_use *use, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        const tg_encoding part = part_of(use, t);
        if (!tg_encoding_fits(&part))
            return tg_fail_field(err, "encode", "counts and sums of squares as a fit leaves them",
                                 "others (%s)", tg_table_fields[t]);
    }
    return TG_OK;
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        tg_encoding part = part_of(use, t);
        const int cols = width(&part, t);
        if (!tg_wants(d, t) || cols == 0) continue;
        part.checked = is_checked(part.columns, d->from->checked[t]);
        tg_features *x = &d->table[t];
        float *y = tg_draft_room(x->rows, cols, err);
        if (y == NULL) return err->code;
        tg_status status = TG_OK;
        if (part.columns->n > 0) status = tg_encoding_apply(&part, x, y, err);
        else memset(y, 0, (size_t)(x->rows * cols) * sizeof *y);
        status = tg_draft_replace(d, (tg_table)t, status, y, cols, 1);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

const tg_prepare_step tg_step_encode = {
    .name = "encode",
    .doc = "All features by a schema: number and log (ln(1 + x), x >= 0) with mean 0 and standard deviation "
           "1 in training, category as one column of 0 and 1 per value, flag as it is; what was constant in "
           "training is 0.",
    .attrs = TG_ATTRS(
        TG_ROW("node", TG_ATTR_ITEMS, 0, 0, 0, 0, NULL, "columns of node_feat"),
        TG_ROW("graph", TG_ATTR_ITEMS, 0, 0, 0, 0, NULL, "columns of graph_feat"),
        TG_ROW("config", TG_ATTR_ITEMS, 0, 0, 0, 0, NULL, "columns of config_feat"),
        TG_ROW("unknown", TG_ATTR_CHOICE, 0, UNKNOWN_ERROR, 0, 0, "error|zero",
               "a category that was not seen in training is refused, or 0 in all its columns"),
        TG_ROW("levels", TG_ATTR_INT, 0, 0, 0, 64, NULL,
               "numbers with at most this many values in training also get a column of 0 and 1 per value")),
    .flags = TG_STEP_CONFIGS,
    .plan = plan,
    .outline = outline,
    .inspect = inspect,
    .fit = fit,
    .finish = finish,
    .check = check,
    .apply = apply,
};
