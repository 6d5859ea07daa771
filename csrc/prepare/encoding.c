#include "prepare/encoding.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "features/scaler.h"

static int scaled(const tg_column *column) {
    return column->kind == TG_KIND_NUMBER || column->kind == TG_KIND_LOG;
}
static int levels_of(const tg_encoding *p, int c) {
    return p->most > 0 && p->n_levels[c] <= p->most ? (int)p->n_levels[c] : 0;
}

/* Columns that column c becomes. */
static int width_of(const tg_encoding *p, int c) {
    const tg_column *column = &p->columns->column[c];
    if (column->kind == TG_KIND_CATEGORY) return column->n_values;
    return 1 + (column->kind == TG_KIND_NUMBER ? levels_of(p, c) : 0);
}

int tg_encoding_width(const tg_encoding *p) {
    int cols = 0;
    for (int c = 0; c < p->columns->n; c++) cols += width_of(p, c);
    return cols;
}

static tg_status misfit(const tg_encoding *p, int c, int64_t row, float x, const char *expected,
                        tg_error *err) {
    const tg_column *column = &p->columns->column[c];
    const int named =
        column->kind == TG_KIND_CATEGORY && x >= 0 && x < (float)column->n_values && x == floorf(x);
    const char *value = named ? column->values[(int)x] : NULL;
    if (value != NULL)
        return tg_fail_field(err, p->field, expected, "'%.60s' in column '%.60s', row %lld", value,
                             column->name, (long long)row);
    return tg_fail_field(err, p->field, expected, "%g in column '%.60s', row %lld", (double)x, column->name,
                         (long long)row);
}

/* A number as it is scaled: ln(1 + x) of a log column. */
static float plain(const tg_column *column, float x) {
    return column->kind == TG_KIND_LOG ? (float)log1p((double)x) : x;
}

/* Whether the values of a row can stand in the columns at all; categories that the schema does not have can. */
static tg_status check_row(const tg_encoding *p, int64_t row, const float *x, tg_error *err) {
    for (int c = 0; !p->checked && c < p->columns->n; c++) {
        const tg_rule rule = {p->columns->column[c].kind, -1};
        if (!tg_rule_allows(rule, (double)x[c]))
            return misfit(p, c, row, x[c], tg_rule_expects(rule, (double)x[c]), err);
    }
    return TG_OK;
}

/* ---- fit ---- */

static void add_level(const tg_encoding *p, int c, float x) {
    double *levels = p->levels + (int64_t)c * p->most;
    int64_t *n = &p->n_levels[c];
    if (*n > p->most) return;
    for (int64_t l = 0; l < *n; l++)
        if (levels[l] == (double)x) return;
    if (*n < p->most) levels[*n] = x == 0 ? 0.0 : (double)x; /* without the sign of -0 */
    ++*n;
}

/* One row into the counts; plain numbers to `to`. */
static tg_status count_row(const tg_encoding *p, int64_t row, const float *x, float *to, tg_error *err) {
    int64_t *seen = p->seen;
    const tg_status status = check_row(p, row, x, err);
    if (status != TG_OK) return status;
    for (int c = 0; c < p->columns->n; c++) {
        const tg_column *column = &p->columns->column[c];
        to[c] = plain(column, x[c]);
        if (column->kind == TG_KIND_NUMBER && p->most > 0) add_level(p, c, x[c]);
        if (column->kind != TG_KIND_CATEGORY) continue;
        if (x[c] >= 0 && x[c] < (float)column->n_values) seen[(int)x[c]]++;
        else if (!p->zero_unknown) return misfit(p, c, row, x[c], "a value that the schema has", err);
        seen += column->n_values;
    }
    return TG_OK;
}

tg_status tg_encoding_fit(const tg_encoding *p, const tg_features *x, tg_error *err) {
    const int F = p->columns->n;
    float *numbers = tg_draft_room(x->rows, F, err);
    if (numbers == NULL) return err->code;
    tg_status status = TG_OK;
    for (int64_t i = 0; status == TG_OK && i < x->rows; i++)
        status = count_row(p, i, x->x + i * x->ld, numbers + i * F, err);
    const tg_rows rows = {numbers, x->rows, F, F, p->field};
    if (status == TG_OK) status = tg_scaler_merge(p->count, p->mean, p->m2, &rows, err);
    free(numbers);
    return status;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tg_status tg_encoding_finish(const tg_encoding *p, tg_error *err) {
    if (p->columns->n > 0 && *p->count == 0)
        return tg_fail_field(err, p->field, "at least one row to fit to", "none");
    for (int c = 0; p->most > 0 && c < p->columns->n; c++) {
        double *levels = p->levels + (int64_t)c * p->most;
        const int n = levels_of(p, c);
        if (n == 0 || p->m2[c] == 0) { /* too many, or one: a constant says nothing */
            p->n_levels[c] = 0;
            memset(levels, 0, (size_t)p->most * sizeof *levels);
        } else qsort(levels, (size_t)n, sizeof *levels, by_value);
    }
    return TG_OK;
}

int tg_encoding_fits(const tg_encoding *p) {
    int fine = *p->count >= (p->columns->n > 0);
    const int64_t *seen = p->seen;
    for (int c = 0; c < p->columns->n; c++) {
        const int values = p->columns->column[c].n_values;
        for (int v = 0; v < values; v++) fine &= seen[v] >= 0 && seen[v] <= *p->count;
        seen += values;
        fine &= p->m2[c] >= 0;
        if (p->n_levels != NULL) fine &= p->n_levels[c] >= 0 && p->n_levels[c] <= p->most;
    }
    return fine;
}

/* ---- apply ---- */

static tg_status one_hot(const tg_encoding *p, int c, const int64_t *seen, int64_t row, float x, float *to,
                         tg_error *err) {
    const int n = p->columns->column[c].n_values, value = x >= 0 && x < (float)n ? (int)x : -1;
    if ((value < 0 || seen[value] == 0) && !p->zero_unknown)
        return misfit(p, c, row, x, "a value that was seen in training", err);
    for (int v = 0; v < n; v++) to[v] = v == value && seen[v] > 0 && seen[v] < *p->count ? 1.0f : 0.0f;
    return TG_OK;
}

static tg_status encode_row(const tg_encoding *p, const double *inverse, int64_t row, const float *x,
                            float *to, tg_error *err) {
    const int64_t *seen = p->seen;
    tg_status status = check_row(p, row, x, err);
    for (int c = 0; status == TG_OK && c < p->columns->n; c++) {
        const tg_column *column = &p->columns->column[c];
        if (column->kind == TG_KIND_CATEGORY) {
            status = one_hot(p, c, seen, row, x[c], to, err);
            seen += column->n_values;
        }
        if (scaled(column)) to[0] = (float)(((double)plain(column, x[c]) - p->mean[c]) * inverse[c]);
        if (column->kind == TG_KIND_FLAG) to[0] = inverse[c] == 0 ? 0 : x[c];
        if (column->kind != TG_KIND_CATEGORY && !(fabsf(to[0]) <= FLT_MAX))
            return misfit(p, c, row, x[c], "numbers that stay finite when scaled", err);
        for (int l = 0; column->kind == TG_KIND_NUMBER && l < levels_of(p, c); l++)
            to[1 + l] = p->levels[(int64_t)c * p->most + l] == (double)x[c] ? 1.0f : 0.0f;
        to += width_of(p, c);
    }
    return status;
}

tg_status tg_encoding_apply(const tg_encoding *p, const tg_features *x, float *y, tg_error *err) {
    const int F = p->columns->n, cols = tg_encoding_width(p);
    double *inverse = malloc((size_t)(F + 1) * sizeof *inverse);
    if (inverse == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to scale %d columns", F);
    for (int c = 0; c < F; c++) inverse[c] = p->m2[c] > 0 ? 1 / sqrt(p->m2[c] / (double)*p->count) : 0;
    int64_t first = x->rows;
#pragma omp parallel for schedule(static) reduction(min : first)                                             \
    num_threads(tg_threads(20.0 * (double)x->rows * (double)cols))
    for (int64_t i = 0; i < x->rows; i++)
        if (encode_row(p, inverse, i, x->x + i * x->ld, y + i * cols, NULL) != TG_OK && i < first) first = i;
    tg_status status = TG_OK;
    if (first < x->rows) status = encode_row(p, inverse, first, x->x + first * x->ld, y + first * cols, err);
    free(inverse);
    return status;
}
