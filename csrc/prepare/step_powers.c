/* What numbers of a config have to do with powers of two, as further features: sizes of blocks, tiles and vectors are
   fast or slow by their divisibility, which no threshold on the number itself shows. */
#include "prepare/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "features/scaler.h"

enum { CONFIG }; /* the attribute */
enum { COUNT, LOW, HIGH, MORE, MEAN, M2 };
enum { EACH = 4, WHOLE = 3 }; /* numbers derived from each column, from the product of all */

/* x = 2^twos * odd. Anything but a positive whole number counts as 1 with odd part 0. */
typedef struct factors {
    float twos, odd; /* exponent; log2 of the odd part */
    int power;       /* the odd part is 1 */
} factors;

static factors split(float x) {
    if (!(x >= 1 && x <= 0x1p31f && x == floorf(x))) return (factors){0, 0, 0};
    int64_t whole = (int64_t)x;
    int twos = 0;
    for (; (whole & 1) == 0; whole >>= 1) twos++;
    return (factors){(float)twos, (float)log2((double)whole), whole == 1};
}

static int64_t derived(int64_t T) { return EACH * T + T * (T - 1) / 2 + WHOLE; }

static tg_status plan(tg_use *use, const tg_outline *before, tg_error *err) {
    const int64_t T = use->columns[CONFIG].n, M = derived(T);
    (void)before;
    if (M > TG_MAX_COLUMNS) return tg_step_wrong(use, err, "at most 358 columns");
    tg_status status = tg_step_keeps(use, "powers.count", 1, 1, err);
    if (status == TG_OK) status = tg_step_keeps(use, "powers.low", 0, T, err);
    if (status == TG_OK) status = tg_step_keeps(use, "powers.high", 0, T, err);
    if (status == TG_OK) status = tg_step_keeps(use, "powers.more", 1, T, err);
    if (status == TG_OK) status = tg_step_keeps(use, "powers.mean", 0, M, err);
    if (status == TG_OK) status = tg_step_keeps(use, "powers.m2", 0, M, err);
    return status;
}

/* Columns that varied in training are appended. */
static int width(const tg_use *use) {
    int cols = 0;
    for (int64_t m = 0; m < use->state[M2].n; m++) cols += use->state[M2].f[m] > 0;
    return cols;
}

static void outline(const tg_use *use, tg_outline *outline, int fitted) {
    outline->changed[TG_TABLE_CONFIG] = outline->learnt[TG_TABLE_CONFIG] = 1;
    if (outline->cols[TG_TABLE_CONFIG] < 0) return;
    outline->cols[TG_TABLE_CONFIG] = fitted ? outline->cols[TG_TABLE_CONFIG] + width(use) : -1;
}

static tg_status inspect(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err) {
    if (!(tables >> TG_TABLE_CONFIG & 1) || graph->T == use->columns[CONFIG].n) return TG_OK;
    return tg_fail_field(err, "config_feat", "as many columns as the schema has", "%lld",
                         (long long)graph->T);
}

/* All derived numbers (M) of one config: per column, then of pairs, then of the product. Only columns of numbers
   count. */
static void derive(const tg_columns *columns, const float *x, factors *parts, float *to) {
    const int T = columns->n;
    float twos = 0, odd = 0;
    for (int c = 0; c < T; c++, to += EACH) {
        const tg_column_kind kind = columns->column[c].kind;
        const int number = kind == TG_KIND_NUMBER || kind == TG_KIND_LOG;
        const factors f = parts[c] = number ? split(x[c]) : (factors){0, 0, 0};
        to[0] = f.twos + f.odd, to[1] = f.twos, to[2] = f.odd, to[3] = (float)f.power;
        twos += f.twos, odd += f.odd;
    }
    for (int a = 0; a < T; a++)
        for (int b = a + 1; b < T; b++) *to++ = (float)(parts[a].power && parts[b].power);
    to[0] = twos, to[1] = odd, to[2] = (float)(odd == 0);
}

/* Smallest, largest, and whether there are others. */
static void count_values(const tg_use *use, int first, const float *x) {
    for (int64_t c = 0; c < use->columns[CONFIG].n; c++) {
        double *low = &use->state[LOW].f[c], *high = &use->state[HIGH].f[c];
        const double value = (double)x[c];
        if (first) *low = *high = value;
        if (value == *low || value == *high) continue;
        if (*low != *high) use->state[MORE].i[c] = 1;
        if (value < *low) *low = value;
        if (value > *high) *high = value;
    }
}

static tg_status fit(tg_use *use, const tg_draft *d, tg_error *err) {
    const tg_stored *s = d->from;
    const int64_t T = use->columns[CONFIG].n, M = derived(T);
    if (T == 0 || s->C == 0 || s->config_feat == NULL) return TG_OK;
    const tg_rows given = {s->config_feat, s->C, T, T, "config_feat"};
    tg_status status = tg_rows_finite(&given, err);
    float *numbers = status == TG_OK ? tg_draft_room(s->C, M, err) : NULL;
    factors *parts = malloc((size_t)T * sizeof *parts);
    if (status == TG_OK && numbers == NULL) status = err->code;
    if (status == TG_OK && parts == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld columns", (long long)T);
    for (int64_t i = 0; status == TG_OK && i < s->C; i++) {
        count_values(use, i == 0 && use->state[COUNT].i[0] == 0, s->config_feat + i * T);
        derive(&use->columns[CONFIG], s->config_feat + i * T, parts, numbers + i * M);
    }
    const tg_rows rows = {numbers, s->C, M, M, "config_feat"};
    if (status == TG_OK)
        status = tg_scaler_merge(use->state[COUNT].i, use->state[MEAN].f, use->state[M2].f, &rows, err);
    free(numbers);
    free(parts);
    return status;
}

/* A column of one or two values says nothing more than the number itself: what is derived from it is left out. */
static tg_status finish(tg_use *use, tg_error *err) {
    const int64_t T = use->columns[CONFIG].n;
    double *m2 = use->state[M2].f, *pair = m2 + EACH * T;
    if (T > 0 && use->state[COUNT].i[0] == 0)
        return tg_fail_field(err, "config_feat", "at least one row to fit to", "none");
    for (int64_t a = 0; a < T; a++) {
        const int useful = use->state[MORE].i[a] != 0;
        for (int e = 0; !useful && e < EACH; e++) m2[EACH * a + e] = 0;
        for (int64_t b = a + 1; b < T; b++, pair++)
            if (!useful || use->state[MORE].i[b] == 0) *pair = 0;
    }
    return TG_OK;
}

static tg_status check(const tg_use *use, tg_error *err) {
    int fine = use->state[COUNT].i[0] >= (use->columns[CONFIG].n > 0);
    for (int64_t m = 0; m < use->state[M2].n; m++) fine &= use->state[M2].f[m] >= 0;
    if (fine) return TG_OK;
    return tg_fail_field(err, "powers", "counts and sums of squares as a fit leaves them", "others");
}

/* The old columns and behind them the derived ones that varied, with mean 0 and standard deviation 1. */
static void append(const tg_use *use, const tg_features *x, int64_t i, const float *raw, factors *parts,
                   float *numbers, float *y) {
    const double count = (double)use->state[COUNT].i[0], *mean = use->state[MEAN].f, *m2 = use->state[M2].f;
    memcpy(y, x->x + i * x->ld, (size_t)x->cols * sizeof *y);
    derive(&use->columns[CONFIG], raw, parts, numbers);
    float *to = y + x->cols;
    for (int64_t m = 0; m < use->state[M2].n; m++)
        if (m2[m] > 0) *to++ = (float)(((double)numbers[m] - mean[m]) / sqrt(m2[m] / count));
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    const tg_stored *s = d->from;
    const tg_features *x = &d->table[TG_TABLE_CONFIG];
    const int64_t T = use->columns[CONFIG].n, M = derived(T);
    const int cols = x->cols + width(use);
    if (!tg_wants(d, TG_TABLE_CONFIG) || cols == x->cols) return TG_OK;
    float *y = tg_draft_room(x->rows, cols, err);
    float *numbers = y == NULL ? NULL : tg_draft_room(1, M, err);
    factors *parts = malloc((size_t)(T + 1) * sizeof *parts);
    tg_status status = y == NULL || numbers == NULL ? err->code : TG_OK;
    if (status == TG_OK && parts == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld columns", (long long)T);
    for (int64_t i = 0; status == TG_OK && i < x->rows; i++)
        append(use, x, i, s->config_feat + i * T, parts, numbers, y + i * cols);
    free(numbers);
    free(parts);
    return tg_draft_replace(d, TG_TABLE_CONFIG, status, y, cols, x->finite);
}

const tg_prepare_step tg_step_powers = {
    .name = "powers",
    .doc = "Append to the features of configs, for columns of numbers with more than two values, log2, the "
           "exponent of two, log2 of the odd part and whether that is 1; for each pair of them whether both "
           "are powers of two; and of the product of all the exponent, the odd part and whether it is 1. "
           "Those that vary in training, with mean 0 and standard deviation 1.",
    .attrs = TG_ATTRS(TG_ROW("config", TG_ATTR_ITEMS, 1, 0, 0, 0, NULL, "columns of config_feat")),
    .flags = TG_STEP_CONFIGS,
    .plan = plan,
    .outline = outline,
    .inspect = inspect,
    .fit = fit,
    .finish = finish,
    .check = check,
    .apply = apply,
};
