#include "trees/forest.h"

#include <math.h>
#include <stdlib.h>

#include "base/parallel.h"

/* LightGBM takes numbers up to this for 0. */
static const float zero = 1e-35f;

/* Rows that go down a tree while it is in the cache; splits that are passed between two looks at `cancel`. */
enum { ROWS = 64, PASSED = 16 << 20, MOST_ROWS = 1 << 14 };

void tg_forest_free(tg_forest *forest) {
    free(forest->block);
    *forest = (tg_forest){.block = NULL};
}

static int in_set(const tg_forest *f, const tg_split *s, float value) {
    if (!(value > -1.0f && value < 0x1p31f)) return 0; /* NaN is in no set, -0.5 is cut to 0 */
    const uint32_t number = (uint32_t)value;
    return number / 32 < s->at.set.count && (f->word[s->at.set.first + number / 32] >> number % 32 & 1);
}

static int goes_left(const tg_forest *f, const tg_split *s, float value) {
    if (s->rule & TG_SPLIT_SET) return in_set(f, s, value);
    if (isnan(value) || ((s->rule & TG_SPLIT_ZERO) && fabsf(value) <= zero))
        return (s->rule & TG_SPLIT_MISSING) != 0;
    return (double)value <= s->at.threshold;
}

static double leaf_of(const tg_forest *f, int32_t tree, const float *row, int64_t cols) {
    const int32_t first = f->first[tree];
    if (f->first[tree + 1] == first) return f->leaf[first + tree];
    int32_t at = first;
    do {
        const tg_split *s = &f->split[at];
        at = goes_left(f, s, s->column < cols ? row[s->column] : NAN) ? s->left : s->right;
    } while (at >= 0);
    return f->leaf[~at];
}

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* Add trees from..to-1 to the sums of n rows. */
static void add_trees(const tg_forest *f, const float *rows, int64_t n, int64_t cols, int32_t from,
                      int32_t to, double *sums) {
    const int64_t blocks = (n + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(dynamic) num_threads(tg_threads(4.0 * n * (to - from) * f->depth))
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t end = (b + 1) * ROWS < n ? (b + 1) * ROWS : n;
        for (int32_t t = from; t < to; t++)
            for (int64_t i = b * ROWS; i < end; i++) sums[i] += leaf_of(f, t, rows + i * cols, cols);
    }
}

tg_status tg_forest_sums(const tg_forest *f, const float *rows, int64_t n, int64_t cols, int32_t trees,
                         double *sums, tg_cancel *cancel, tg_error *err) {
    const int64_t way = f->depth + 1, fit = PASSED / way;
    const int64_t rows_at_once = fit < ROWS ? ROWS : fit < MOST_ROWS ? fit : MOST_ROWS;
    trees = least(trees, f->trees);
    for (int64_t i = 0; i < n; i++) sums[i] = 0;
    for (int64_t i = 0; i < n; i += rows_at_once) {
        const int64_t size = n - i < rows_at_once ? n - i : rows_at_once, at_once = 1 + fit / size;
        for (int64_t t = 0; t < trees; t += at_once) {
            if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
            const int32_t to = t + at_once < trees ? (int32_t)(t + at_once) : trees;
            add_trees(f, rows + i * cols, size, cols, (int32_t)t, to, sums + i);
        }
    }
    return TG_OK;
}

void tg_forest_chances(const tg_forest *f, int32_t trees, double *sums, int64_t n) {
    trees = least(trees, f->trees);
    for (int64_t i = 0; i < n; i++) {
        const double sum = f->average ? sums[i] / trees : sums[i];
        sums[i] = 1 / (1 + exp(-f->sigmoid * sum));
    }
}

/* Pairs first..first + n - 1 of those in which each of the rows stands next to each of others(m, cols). */
static void pair_rows(const float *rows, const float *others, int64_t m, int64_t cols, int64_t first,
                      int64_t n, float *pairs) {
#pragma omp parallel for schedule(static) num_threads(tg_threads((double)n *(double)cols))
    for (int64_t p = 0; p < n; p++) {
        const float *one = rows + (first + p) / m * cols, *other = others + (first + p) % m * cols;
        float *to = pairs + 2 * p * cols;
        for (int64_t c = 0; c < cols; c++) to[c] = one[c], to[cols + c] = one[c] - other[c];
    }
}

tg_status tg_forest_against(const tg_forest *f, const float *rows, int64_t n, const float *others, int64_t m,
                            int64_t cols, int32_t trees, float *scores, tg_cancel *cancel, tg_error *err) {
    const int64_t all = n * m, step = all < MOST_ROWS ? all : MOST_ROWS;
    float *pairs = malloc((size_t)(step * cols) * 2 * sizeof *pairs + 1);
    double *chances = malloc((size_t)step * sizeof *chances + 1), sum = 0;
    tg_status status = TG_OK;
    if (pairs == NULL || chances == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld pairs", (long long)step);
    for (int64_t p = 0; status == TG_OK && p < all; p += step) {
        const int64_t size = all - p < step ? all - p : step;
        pair_rows(rows, others, m, cols, p, size, pairs);
        status = tg_forest_sums(f, pairs, size, 2 * cols, trees, chances, cancel, err);
        if (status == TG_OK) tg_forest_chances(f, trees, chances, size);
        for (int64_t j = 0; status == TG_OK && j < size; j++) {
            sum += chances[j];
            if ((p + j + 1) % m != 0) continue;
            scores[(p + j) / m] = (float)(sum / (double)m);
            sum = 0;
        }
    }
    free(chances);
    free(pairs);
    return status;
}

void tg_forest_gains(const tg_forest *f, int32_t trees, const int64_t *columns, int64_t n, double *gains) {
    const int32_t splits = f->first[least(trees, f->trees)];
    for (int64_t i = 0; i < n; i++) gains[i] = 0;
    for (int32_t i = 0; i < splits; i++) {
        int64_t low = 0, high = n - 1;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (columns[middle] < f->split[i].column) low = middle + 1;
            else high = middle;
        }
        gains[low] += (double)f->gain[i];
    }
}
