#include "search/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rank/metrics.h"
#include "search/extra_trees.h"
#include "search/surrogate.h"

/* Rows that logs are found on; rows and candidates that are looked at closely; folds; trees of a surrogate, of a cause of failure. */
enum { TUNED = 150, CLOSELY = 500, FOLDS = 5, TREES = 60, FAILING = 32, FEW = 50, BATCH = 256 };
static const double better = 0.02; /* tau by which trees must lead */

typedef struct asking {
    const tg_told *told;
    const double *pool;
    int64_t m, n; /* candidates; rows that are learnt from */
    uint64_t key;
    int64_t *row;                      /* (told->n) those that ran, the ones that are learnt from first */
    double *x, *y;                     /* (n, F), (n) */
    double *guess;                     /* (max(n, m)) */
    double *mean, *variance, *failing; /* (m) */
    float *found;                      /* (TREES, max(n, m)) */
    tg_cancel *cancel;
} asking;

/* ---- rows ---- */

static void swap(int64_t *order, int64_t a, int64_t b) {
    const int64_t one = order[a];
    order[a] = order[b], order[b] = one;
}

/* Whether row a is learnt from before row b. */
static int before(const tg_told *told, int64_t a, int64_t b) {
    return told->y[a] < told->y[b] || (told->y[a] == told->y[b] && a < b);
}

/* Brings the `count` best of order(n) to its front, in order, by a heap. */
static void sift(const tg_told *told, int64_t *heap, int64_t at, int64_t n) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(told, heap[child], heap[child + 1])) child++;
        if (!before(told, heap[at], heap[child])) return;
        swap(heap, at, child);
    }
}

static void best_first(const tg_told *told, int64_t *order, int64_t n) {
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift(told, order, i, n);
    for (int64_t end = n - 1; end > 0; end--) {
        swap(order, 0, end);
        sift(told, order, 0, end);
    }
}

/* Rows that ran among the first `among`, at most `most`: the best half of them, and others by chance. */
static int64_t learn_from(const tg_told *told, int64_t among, int64_t most, uint64_t key, int64_t *row) {
    int64_t n = 0;
    for (int64_t i = 0; i < among; i++)
        if (told->cause[i] == 0) row[n++] = i;
    if (n <= most) return n;
    best_first(told, row, n);
    for (int64_t i = most / 2; i < most; i++)
        swap(row, i, i + (int64_t)tg_below(key, (uint64_t)i, (uint64_t)(n - i)));
    return most;
}

static void gather(asking *a) {
    const int64_t F = a->told->F;
    for (int64_t i = 0; i < a->n; i++) {
        memcpy(a->x + i * F, a->told->x + a->row[i] * F, (size_t)F * sizeof(double));
        a->y[i] = a->told->y[a->row[i]];
    }
}

/* ---- which model ---- */

/* Guesses of y near the largest doubles overflow: they say nothing. */
static tg_status tau(const asking *a, double *value, tg_error *err) {
    for (int64_t i = 0; i < a->n; i++)
        if (!isfinite(a->guess[i])) a->guess[i] = 0;
    const tg_numbers guess = {a->guess, TG_NUMBER_F64, a->n}, y = {a->y, TG_NUMBER_F64, a->n};
    return tg_kendall_tau(guess, y, 0, value, err);
}

/* What trees grown on the other folds say of every row. */
static tg_status trees_left_out(asking *a, double *guess, tg_error *err) {
    const int64_t F = a->told->F, n = a->n;
    double *block = malloc((size_t)(n * (2 * F + 2)) * sizeof *block);
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for trees of %lld rows", (long long)n);
    double *in = block, *out = block + n * F, *y = out + n * F;
    tg_status status = TG_OK;
    for (int64_t fold = 0; fold < FOLDS && status == TG_OK; fold++) {
        int64_t rows = 0, asked = 0;
        for (int64_t i = 0; i < n; i++) {
            const int here = i % FOLDS == fold;
            memcpy(here ? out + asked * F : in + rows * F, a->x + i * F, (size_t)F * sizeof *in);
            if (here) asked++;
            else y[rows++] = a->y[i];
        }
        if (rows == 0 || asked == 0) continue;
        const tg_trees how = {TREES / 2, 1, (int32_t)F, tg_key(a->key, 2 + (uint64_t)fold)};
        status = tg_extra_trees(&how, in, y, rows, F, out, asked, a->found, a->cancel, err);
        for (int64_t i = fold, k = 0; i < n && status == TG_OK; i += FOLDS, k++) {
            guess[i] = 0;
            for (int32_t t = 0; t < how.trees; t++) guess[i] += a->found[t * asked + k];
        }
    }
    free(block);
    return status;
}

static tg_status pick_model(asking *a, const tg_surrogate *process, tg_asked *asked, tg_error *err) {
    tg_status status = tg_surrogate_left_out(process, a->guess, err);
    if (status == TG_OK) status = tau(a, &asked->tau[0], err);
    if (status == TG_OK) status = trees_left_out(a, a->guess, err);
    if (status == TG_OK) status = tau(a, &asked->tau[1], err);
    if (status != TG_OK) return status;
    asked->model = asked->tau[1] > asked->tau[0] + better ? TG_BY_TREES : TG_BY_PROCESS;
    return TG_OK;
}

/* ---- failures ---- */

/* failing(m): the chance of failing, each cause by trees of its own. */
static tg_status learn_failures(asking *a, tg_error *err) {
    const tg_told *told = a->told;
    double *one = malloc((size_t)told->n * sizeof *one);
    if (one == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)told->n);
    tg_status status = TG_OK;
    memset(a->failing, 0, (size_t)a->m * sizeof *a->failing);
    for (int32_t cause = 1; cause < TG_CAUSES && status == TG_OK; cause++) {
        int64_t count = 0;
        for (int64_t i = 0; i < told->n; i++) count += (int)(one[i] = told->cause[i] == cause);
        if (count == 0) continue;
        const tg_trees how = {FAILING, 2, (int32_t)told->F, tg_key(a->key, 100 + (uint64_t)cause)};
        status =
            tg_extra_trees(&how, told->x, one, told->n, told->F, a->pool, a->m, a->found, a->cancel, err);
        for (int32_t t = 0; t < how.trees && status == TG_OK; t++)
            for (int64_t i = 0; i < a->m; i++)
                a->failing[i] += 1.0 / how.trees * a->found[(int64_t)t * a->m + i];
    }
    free(one);
    return status;
}

/* ---- choosing ---- */

/* The `count` least of value(m), least first, ties by position. */
static void least_of(const double *value, int64_t m, int64_t count, int64_t *chosen) {
    int64_t n = 0;
    for (int64_t i = 0; i < m; i++) {
        if (n == count && !(value[i] < value[chosen[n - 1]])) continue;
        int64_t at = n < count ? n++ : n - 1;
        for (; at > 0 && value[i] < value[chosen[at - 1]]; at--) chosen[at] = chosen[at - 1];
        chosen[at] = i;
    }
}

static tg_status choose_by_trees(asking *a, int64_t count, int64_t *chosen, tg_error *err) {
    const tg_trees how = {TREES, 1, (int32_t)a->told->F, tg_key(a->key, 1)};
    const tg_status status =
        tg_extra_trees(&how, a->x, a->y, a->n, a->told->F, a->pool, a->m, a->found, a->cancel, err);
    double best = INFINITY;
    for (int64_t i = 0; i < a->n; i++) best = fmin(best, a->y[i]);
    for (int64_t i = 0; i < a->m && status == TG_OK; i++) {
        double sum = 0, squares = 0;
        for (int32_t t = 0; t < TREES; t++) {
            const double found = a->found[(int64_t)t * a->m + i];
            sum += found, squares += found * found;
        }
        const double mean = sum / TREES;
        const double deviation = sqrt(fmax(squares / TREES - mean * mean, 1e-12));
        a->mean[i] = tg_wanted(mean, deviation, a->failing[i], best, a->told->gaining);
    }
    if (status == TG_OK) least_of(a->mean, a->m, count, chosen);
    return status;
}

/* Those that could be best by a bound of their deviation are looked at closely, the first of a very large batch one after
   the other; the others follow by their bound. */
static tg_status choose_by_process(asking *a, const tg_surrogate *process, int64_t count, int64_t *chosen,
                                   tg_error *err) {
    const int64_t F = a->told->F, most = count < CLOSELY ? CLOSELY : count + BATCH,
                  wanted = a->m < most ? a->m : most, closely = wanted < CLOSELY ? wanted : CLOSELY,
                  batch = count < BATCH ? count : BATCH;
    int64_t *near =
        malloc((size_t)wanted * sizeof *near + (size_t)closely * (size_t)(F + 2) * sizeof(double));
    if (near == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to choose among %lld configs", (long long)a->m);
    double *x = (double *)(near + wanted), *mean = x + closely * F, *failing = mean + closely;
    tg_status status = tg_surrogate_mean(process, a->pool, a->m, a->mean, a->variance, err);
    for (int64_t i = 0; i < a->m; i++)
        a->guess[i] = tg_wanted(a->mean[i], sqrt(fmax(a->variance[i], 0)), a->failing[i], 0, 0);
    least_of(a->guess, a->m, wanted, near);
    for (int64_t i = 0; i < closely; i++) {
        memcpy(x + i * F, a->pool + near[i] * F, (size_t)F * sizeof *x);
        mean[i] = a->mean[near[i]], failing[i] = a->failing[near[i]];
    }
    if (status == TG_OK)
        status =
            tg_surrogate_choose(process, x, closely, mean, failing, a->told->gaining, batch, chosen, err);
    for (int64_t i = 0; i < batch && status == TG_OK; i++) {
        const int64_t one = chosen[i];
        chosen[i] = near[one], near[one] = -1;
    }
    for (int64_t i = 0, k = batch; k < count && status == TG_OK; i++)
        if (near[i] >= 0) chosen[k++] = near[i];
    free(near);
    return status;
}

/* The logs are found on this many first rows of n, so that they are not found anew for every config. */
static int64_t settled_of(int64_t n) {
    int64_t rows = n < 4 ? n : 4;
    for (int64_t next = rows; next <= n; next = rows + 2 > rows * 13 / 10 ? rows + 2 : rows * 13 / 10)
        rows = next;
    return rows;
}

static tg_status choose(asking *a, int64_t count, int64_t *chosen, tg_asked *asked, tg_error *err) {
    const tg_told *told = a->told;
    const int64_t F = told->F, settled = settled_of(told->n);
    double *logs = malloc((size_t)(F + 2) * sizeof *logs);
    if (logs == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld columns", (long long)F);
    for (int64_t j = 0; j < F + 2; j++) logs[j] = j == F + 1 ? -3 : 0;
    tg_surrogate process = {.block = NULL};
    a->n = learn_from(told, settled, TUNED, tg_key(a->key, 0), a->row);
    gather(a);
    tg_status status = a->n < 2 ? TG_OK : tg_surrogate_tune(a->x, a->y, a->n, F, logs, a->cancel, err);
    a->n = learn_from(told, told->n, TG_SURROGATE_ROWS, tg_key(a->key, 0), a->row);
    gather(a);
    if (status == TG_OK) status = tg_surrogate_fit(&process, a->x, a->y, a->n, F, logs, err);
    if (status == TG_OK) status = pick_model(a, &process, asked, err);
    if (status == TG_OK) status = learn_failures(a, err);
    if (status == TG_OK)
        status = asked->model == TG_BY_TREES ? choose_by_trees(a, count, chosen, err)
                                             : choose_by_process(a, &process, count, chosen, err);
    tg_surrogate_free(&process);
    free(logs);
    return status;
}

tg_status tg_tuner_choose(const tg_told *told, const double *pool, int64_t m, int64_t count, uint64_t key,
                          int64_t *chosen, tg_asked *asked, tg_cancel *cancel, tg_error *err) {
    const int64_t rows = told->n < TG_SURROGATE_ROWS ? told->n : TG_SURROGATE_ROWS,
                  wide = m > rows ? m : rows;
    const size_t doubles = (size_t)(rows * (told->F + 1) + wide + 3 * m);
    char *block = malloc(doubles * sizeof(double) + (size_t)told->n * sizeof(int64_t) +
                         (size_t)wide * TREES * sizeof(float));
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to choose among %lld configs", (long long)m);
    asking a = {.told = told, .pool = pool, .m = m, .key = key, .cancel = cancel};
    a.row = (int64_t *)block;
    a.x = (double *)(a.row + told->n), a.y = a.x + rows * told->F, a.guess = a.y + rows;
    a.mean = a.guess + wide, a.variance = a.mean + m, a.failing = a.variance + m;
    a.found = (float *)(a.failing + m);
    const tg_status status = choose(&a, count, chosen, asked, err);
    free(block);
    return status;
}

static double squared(const double *a, const double *b, int64_t F) {
    double sum = 0;
    for (int64_t j = 0; j < F; j++)
        sum += b == NULL ? (a[j] - 0.5) * (a[j] - 0.5) : (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* How far pool row i is from x(n, F) and the first k chosen; from the middle, the other way round, if there are none. */
static double apart(const double *x, int64_t n, int64_t F, const double *pool, int64_t i,
                    const int64_t *chosen, int64_t k) {
    double least = n + k > 0 ? INFINITY : -squared(pool + i * F, NULL, F);
    for (int64_t j = 0; j < n + k; j++) {
        const double away = squared(pool + i * F, j < n ? x + j * F : pool + chosen[j - n] * F, F);
        least = away < least ? away : least;
    }
    return least;
}

tg_status tg_tuner_begin(const double *x, int64_t n, int64_t F, const double *pool, int64_t m, int64_t count,
                         uint64_t key, int64_t *chosen, tg_cancel *cancel, tg_error *err) {
    for (int64_t k = 0; k < count; k++) {
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        const uint64_t own = tg_key(key, (uint64_t)(n + k));
        const int64_t few = n + k > 0 && m > FEW ? FEW : m;
        double most = -INFINITY;
        chosen[k] = -1;
        for (int64_t t = 0; t < few; t++) {
            const int64_t i = few < m ? (int64_t)tg_below(own, (uint64_t)t, (uint64_t)m) : t;
            int taken = 0;
            for (int64_t j = 0; j < k; j++) taken |= chosen[j] == i;
            const double away = taken ? -INFINITY : apart(x, n, F, pool, i, chosen, k);
            if (away > most) most = away, chosen[k] = i;
        }
        for (int64_t i = 0; chosen[k] < 0; i++) { /* all by chance were taken */
            int taken = 0;
            for (int64_t j = 0; j < k; j++) taken |= chosen[j] == i;
            if (!taken) chosen[k] = i;
        }
    }
    return TG_OK;
}
