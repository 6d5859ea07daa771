/* The features of any schema as a model takes them: numbers scaled, categories as one-hot columns. */
#include "prepare/step.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "features/scaler.h"

/* The first three attributes are the columns of the tables. */
enum { UNKNOWN = TG_TABLES, LEVELS };
enum { UNKNOWN_ERROR, UNKNOWN_ZERO };
/* count (3), one for each table; mean, m2 and n_levels (F), levels (F, most), F columns of all tables one after the
   other; seen: so often each value of each category. n_levels of a column is 0 before the first row, and most + 1 once
   there are more than can be kept. */
enum { COUNT, MEAN, M2, SEEN, LEVEL_COUNT, LEVEL_VALUES };

/* The columns of one table, and where their state begins. */
typedef struct part {
    const tg_columns *columns;
    int table, most, zero_unknown;
    int64_t *count, *seen, *n_levels;
    double *mean, *m2, *levels;
} part;

static int values_of(const tg_columns *columns) {
    int n = 0;
    for (int c = 0; c < columns->n; c++) n += columns->column[c].n_values;
    return n;
}

static part part_of(const tg_use *use, int table) {
    int64_t column = 0, value = 0;
    for (int t = 0; t < table; t++) {
        column += use->columns[t].n;
        value += values_of(&use->columns[t]);
    }
    const int most = (int)use->attr[LEVELS];
    const tg_step_state *s = use->state;
    return (part){&use->columns[table],
                  table,
                  most,
                  use->attr[UNKNOWN] == UNKNOWN_ZERO,
                  s[COUNT].i + table,
                  s[SEEN].i + value,
                  s[LEVEL_COUNT].i + column,
                  s[MEAN].f + column,
                  s[M2].f + column,
                  s[LEVEL_VALUES].f + column * most};
}

static int scaled(const tg_column *column) {
    return column->kind == TG_KIND_NUMBER || column->kind == TG_KIND_LOG;
}
static int levels_of(const part *p, int c) { return p->n_levels[c] <= p->most ? (int)p->n_levels[c] : 0; }

/* Columns that column c becomes. */
static int width_of(const part *p, int c) {
    const tg_column *column = &p->columns->column[c];
    if (column->kind == TG_KIND_CATEGORY) return column->n_values;
    return 1 + (column->kind == TG_KIND_NUMBER ? levels_of(p, c) : 0);
}

/* Nodes have at least one column, of 0. */
static int width(const part *p) {
    int cols = 0;
    for (int c = 0; c < p->columns->n; c++) cols += width_of(p, c);
    return cols == 0 && p->table == TG_TABLE_NODE ? 1 : cols;
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
        const part p = part_of(use, t);
        outline->cols[t] = fitted || p.most == 0 ? width(&p) : -1;
        outline->changed[t] = outline->learnt[t] = 1;
    }
}

/* ---- does a graph fit the schema ---- */

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

static tg_status misfit(const part *p, int c, int64_t row, float x, const char *expected, tg_error *err) {
    const tg_column *column = &p->columns->column[c];
    const int named =
        column->kind == TG_KIND_CATEGORY && x >= 0 && x < (float)column->n_values && x == floorf(x);
    const char *value = named ? column->values[(int)x] : NULL;
    if (value != NULL)
        return tg_fail_field(err, tg_table_fields[p->table], expected, "'%.60s' in column '%.60s', row %lld",
                             value, column->name, (long long)row);
    return tg_fail_field(err, tg_table_fields[p->table], expected, "%g in column '%.60s', row %lld",
                         (double)x, column->name, (long long)row);
}

/* A number as it is scaled: ln(1 + x) of a log column. */
static float plain(const tg_column *column, float x) {
    return column->kind == TG_KIND_LOG ? (float)log1p((double)x) : x;
}

/* Whether the value can stand in the column at all; a category that the schema does not have can. */
static tg_status fits(const part *p, int c, int64_t row, float x, tg_error *err) {
    const tg_column *column = &p->columns->column[c];
    if (!(fabsf(x) <= FLT_MAX)) return misfit(p, c, row, x, "finite numbers", err);
    if (column->kind == TG_KIND_LOG && x < 0)
        return misfit(p, c, row, x, "numbers >= 0 in a log column", err);
    if (column->kind == TG_KIND_FLAG && x != 0 && x != 1)
        return misfit(p, c, row, x, "0 or 1 in a flag", err);
    if (column->kind == TG_KIND_CATEGORY && x != floorf(x))
        return misfit(p, c, row, x, "positions in the values of a category", err);
    return TG_OK;
}

/* ---- fit ---- */

static void add_level(const part *p, int c, float x) {
    double *levels = p->levels + (int64_t)c * p->most;
    int64_t *n = &p->n_levels[c];
    if (*n > p->most) return;
    for (int64_t l = 0; l < *n; l++)
        if (levels[l] == (double)x) return;
    if (*n < p->most) levels[*n] = x == 0 ? 0.0 : (double)x; /* without the sign of -0 */
    ++*n;
}

/* One row into the counts; plain numbers to `to`. */
static tg_status count_row(const part *p, int64_t row, const float *x, float *to, tg_error *err) {
    int64_t *seen = p->seen;
    for (int c = 0; c < p->columns->n; c++) {
        const tg_column *column = &p->columns->column[c];
        tg_status status = fits(p, c, row, x[c], err);
        if (status != TG_OK) return status;
        to[c] = plain(column, x[c]);
        if (column->kind == TG_KIND_NUMBER) add_level(p, c, x[c]);
        if (column->kind != TG_KIND_CATEGORY) continue;
        if (x[c] >= 0 && x[c] < (float)column->n_values) seen[(int)x[c]]++;
        else if (!p->zero_unknown) return misfit(p, c, row, x[c], "a value that the schema has", err);
        seen += column->n_values;
    }
    return TG_OK;
}

static tg_status fit(tg_use *use, const tg_draft *d, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        const part p = part_of(use, t);
        const tg_features *x = &d->table[t];
        const int F = p.columns->n;
        if (F == 0 || !tg_wants(d, t)) continue;
        float *numbers = tg_draft_room(x->rows, F, err);
        if (numbers == NULL) return err->code;
        tg_status status = TG_OK;
        for (int64_t i = 0; status == TG_OK && i < x->rows; i++)
            status = count_row(&p, i, x->x + i * x->ld, numbers + i * F, err);
        const tg_rows rows = {numbers, x->rows, F, F, tg_table_fields[t]};
        if (status == TG_OK) status = tg_scaler_merge(p.count, p.mean, p.m2, &rows, err);
        free(numbers);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tg_status finish(tg_use *use, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        const part p = part_of(use, t);
        if (p.columns->n > 0 && *p.count == 0)
            return tg_fail_field(err, tg_table_fields[t], "at least one row to fit to", "none");
        for (int c = 0; c < p.columns->n; c++) {
            double *levels = p.levels + (int64_t)c * p.most;
            const int n = levels_of(&p, c);
            if (n == 0 || p.m2[c] == 0) { /* too many, or one: a constant says nothing */
                p.n_levels[c] = 0;
                memset(levels, 0, (size_t)p.most * sizeof *levels);
            } else qsort(levels, (size_t)n, sizeof *levels, by_value);
        }
    }
    return TG_OK;
}

static tg_status check(const tg_use *use, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        const part p = part_of(use, t);
        const int values = values_of(p.columns);
        int fine = *p.count >= (p.columns->n > 0);
        for (int v = 0; v < values; v++) fine &= p.seen[v] >= 0 && p.seen[v] <= *p.count;
        for (int c = 0; c < p.columns->n; c++)
            fine &= p.m2[c] >= 0 && p.n_levels[c] >= 0 && p.n_levels[c] <= p.most;
        if (!fine)
            return tg_fail_field(err, "encode", "counts and sums of squares as a fit leaves them",
                                 "others (%s)", tg_table_fields[t]);
    }
    return TG_OK;
}

/* ---- apply ---- */

static tg_status one_hot(const part *p, int c, const int64_t *seen, int64_t row, float x, float *to,
                         tg_error *err) {
    const int n = p->columns->column[c].n_values, value = x >= 0 && x < (float)n ? (int)x : -1;
    if ((value < 0 || seen[value] == 0) && !p->zero_unknown)
        return misfit(p, c, row, x, "a value that was seen in training", err);
    for (int v = 0; v < n; v++) to[v] = v == value && seen[v] > 0 && seen[v] < *p->count ? 1.0f : 0.0f;
    return TG_OK;
}

static tg_status encode_row(const part *p, const double *inverse, int64_t row, const float *x, float *to,
                            tg_error *err) {
    const int64_t *seen = p->seen;
    for (int c = 0; c < p->columns->n; c++) {
        const tg_column *column = &p->columns->column[c];
        tg_status status = fits(p, c, row, x[c], err);
        if (status == TG_OK && column->kind == TG_KIND_CATEGORY) {
            status = one_hot(p, c, seen, row, x[c], to, err);
            seen += column->n_values;
        }
        if (status != TG_OK) return status;
        if (scaled(column)) to[0] = (float)(((double)plain(column, x[c]) - p->mean[c]) * inverse[c]);
        if (column->kind == TG_KIND_FLAG) to[0] = inverse[c] == 0 ? 0 : x[c];
        if (column->kind != TG_KIND_CATEGORY && !(fabsf(to[0]) <= FLT_MAX))
            return misfit(p, c, row, x[c], "numbers that stay finite when scaled", err);
        for (int l = 0; column->kind == TG_KIND_NUMBER && l < levels_of(p, c); l++)
            to[1 + l] = p->levels[(int64_t)c * p->most + l] == (double)x[c] ? 1.0f : 0.0f;
        to += width_of(p, c);
    }
    return TG_OK;
}

static tg_status encode(const part *p, const tg_features *x, float *y, tg_error *err) {
    const int F = p->columns->n, cols = width(p);
    double *inverse = malloc((size_t)(F + 1) * sizeof *inverse);
    if (inverse == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to scale %d columns", F);
    for (int c = 0; c < F; c++) inverse[c] = p->m2[c] > 0 ? 1 / sqrt(p->m2[c] / (double)*p->count) : 0;
    int64_t first = x->rows;
#pragma omp parallel for schedule(static) reduction(min : first)                                             \
    num_threads(tg_threads(20.0 * (double)x->rows * (double)cols))
    for (int64_t i = 0; i < x->rows; i++) {
        if (F == 0) y[i * cols] = 0;
        else if (encode_row(p, inverse, i, x->x + i * x->ld, y + i * cols, NULL) != TG_OK && i < first)
            first = i;
    }
    tg_status status = TG_OK;
    if (first < x->rows) status = encode_row(p, inverse, first, x->x + first * x->ld, y + first * cols, err);
    free(inverse);
    return status;
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    for (int t = 0; t < TG_TABLES; t++) {
        const part p = part_of(use, t);
        const int cols = width(&p);
        if (!tg_wants(d, t) || cols == 0) continue;
        float *y = tg_draft_room(d->table[t].rows, cols, err);
        if (y == NULL) return err->code;
        const tg_status status =
            tg_draft_replace(d, (tg_table)t, encode(&p, &d->table[t], y, err), y, cols, 1);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

const tg_prepare_step tg_step_encode = {
    .name = "encode",
    .doc = "All features by a schema: number and log (ln(1 + x), x >= 0) with mean 0 and standard deviation "
           "1 in training, category as one column of 0 and 1 per value, flag as it is; what was constant in "
           "training is 0.",
    .attrs = {{"node", TG_STEP_COLUMNS, 0, 0, 0, 0, NULL, "columns of node_feat"},
              {"graph", TG_STEP_COLUMNS, 0, 0, 0, 0, NULL, "columns of graph_feat"},
              {"config", TG_STEP_COLUMNS, 0, 0, 0, 0, NULL, "columns of config_feat"},
              {"unknown", TG_STEP_CHOICE, 0, UNKNOWN_ERROR, 0, 0, "error|zero",
               "a category that was not seen in training is refused, or 0 in all its columns"},
              {"levels", TG_STEP_INT, 0, 0, 0, 64, NULL,
               "numbers with at most this many values in training also get a column of 0 and 1 per value"}},
    .flags = TG_STEP_CONFIGS,
    .plan = plan,
    .outline = outline,
    .inspect = inspect,
    .fit = fit,
    .finish = finish,
    .check = check,
    .apply = apply,
};
