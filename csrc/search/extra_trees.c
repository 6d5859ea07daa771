#include "search/extra_trees.h"

#include <stdlib.h>

#include "base/parallel.h"
#include "base/rng.h"

/* A node that waits: its rows and its candidates, which stand together in the orders of the tree. */
typedef struct waiting {
    int64_t rows, to_row, pool, to_pool;
} waiting;

typedef struct growing {
    const tg_trees *how;
    const double *x, *y, *pool;
    int64_t F;
    int64_t *row, *candidate; /* (n), (m): their orders */
    int32_t *column;          /* (F): columns in the order in which they are tried */
    waiting *stack;           /* (n + 1) */
    uint64_t key, draws;
    float *found;
} growing;

typedef struct split {
    int64_t column;
    double threshold, gain;
} split;

/* What a split of a node gains: the sum of squares between its two sides. */
static double gain_of(const growing *g, const waiting *w, int64_t column, double threshold) {
    double sum[2] = {0, 0};
    int64_t count[2] = {0, 0};
    for (int64_t i = w->rows; i < w->to_row; i++) {
        const int right = g->x[g->row[i] * g->F + column] > threshold;
        sum[right] += g->y[g->row[i]];
        count[right]++;
    }
    if (count[0] < g->how->leaf || count[1] < g->how->leaf) return -1;
    const double between = sum[0] / (double)count[0] - sum[1] / (double)count[1];
    return between * between * (double)count[0] * (double)count[1] / (double)(count[0] + count[1]);
}

/* The best of a few random thresholds, each on another column that varies in the node; gain < 0: there is none. */
static split best_split(growing *g, const waiting *w) {
    split best = {0, 0, -1};
    int32_t tried = 0;
    for (int64_t left = g->F; left > 0 && tried < g->how->tries; left--) {
        const int64_t at = (int64_t)tg_below(g->key, g->draws++, (uint64_t)left);
        const int32_t column = g->column[at];
        g->column[at] = g->column[left - 1], g->column[left - 1] = column;
        double low = g->x[g->row[w->rows] * g->F + column], high = low;
        for (int64_t i = w->rows + 1; i < w->to_row; i++) {
            const double value = g->x[g->row[i] * g->F + column];
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        if (!(high > low)) continue;
        const double threshold = low + (high - low) * tg_uniform(g->key, g->draws++);
        const double gain = threshold < high ? gain_of(g, w, column, threshold) : -1;
        if (gain > best.gain) best = (split){column, threshold, gain};
        tried++;
    }
    return best;
}

/* Brings those on the left to the front of order[from, to); returns where the right ones begin. */
static int64_t part(const double *x, int64_t F, const split *s, int64_t *order, int64_t from, int64_t to) {
    while (from < to) {
        const int64_t one = order[from];
        if (x[one * F + s->column] > s->threshold) order[from] = order[--to], order[to] = one;
        else from++;
    }
    return from;
}

static void end_leaf(const growing *g, const waiting *w) {
    double sum = 0;
    for (int64_t i = w->rows; i < w->to_row; i++) sum += g->y[g->row[i]];
    const float mean = (float)(sum / (double)(w->to_row - w->rows));
    for (int64_t i = w->pool; i < w->to_pool; i++) g->found[g->candidate[i]] = mean;
}

static void grow(growing *g, int64_t n, int64_t m) {
    for (int64_t i = 0; i < n; i++) g->row[i] = i;
    for (int64_t i = 0; i < m; i++) g->candidate[i] = i;
    for (int64_t i = 0; i < g->F; i++) g->column[i] = (int32_t)i;
    int64_t depth = 1;
    g->stack[0] = (waiting){0, n, 0, m};
    while (depth > 0) {
        const waiting w = g->stack[--depth];
        if (w.pool == w.to_pool) continue; /* nobody asks */
        split s = {0, 0, -1};
        if (w.to_row - w.rows >= 2 * (int64_t)g->how->leaf) s = best_split(g, &w);
        if (s.gain < 0) {
            end_leaf(g, &w);
            continue;
        }
        const int64_t row = part(g->x, g->F, &s, g->row, w.rows, w.to_row);
        const int64_t pool = part(g->pool, g->F, &s, g->candidate, w.pool, w.to_pool);
        g->stack[depth++] = (waiting){w.rows, row, w.pool, pool};
        g->stack[depth++] = (waiting){row, w.to_row, pool, w.to_pool};
    }
}

tg_status tg_extra_trees(const tg_trees *how, const double *x, const double *y, int64_t n, int64_t F,
                         const double *pool, int64_t m, float *found, tg_cancel *cancel, tg_error *err) {
    const size_t words = (size_t)(n + m + F),
                 size = words * sizeof(int64_t) + (size_t)(n + 1) * sizeof(waiting);
    const int32_t at_once = 16;
    for (int32_t from = 0; from < how->trees; from += at_once) {
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        const int32_t to = from + at_once < how->trees ? from + at_once : how->trees;
        int failed = 0;
#pragma omp parallel for schedule(dynamic) reduction(| : failed)                                             \
    num_threads(tg_threads(20.0 * (double)(n * how->tries + m) * (to - from)))
        for (int32_t t = from; t < to; t++) {
            char *block = malloc(size);
            failed |= block == NULL;
            if (block == NULL) continue;
            waiting *stack = (waiting *)block;
            int64_t *row = (int64_t *)(stack + n + 1);
            growing g = {how,     x,
                         y,       pool,
                         F,       row,
                         row + n, (int32_t *)(row + n + m),
                         stack,   tg_key(how->key, (uint64_t)t),
                         0,       found + (int64_t)t * m};
            grow(&g, n, m);
            free(block);
        }
        if (failed) return tg_fail(err, TG_E_MEMORY, "no memory for trees of %lld rows", (long long)n);
    }
    return TG_OK;
}
