#include "search/surrogate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cholesky.h"
#include "base/parallel.h"

/* Steps of the search for the logs, by resilient propagation (Riedmiller and Braun 1993): it needs signs of slopes only. */
enum { STEPS = 50, TILE = 64 };
static const double least_noise = 1e-4, least_step = 1e-3, most_step = 1.0, first_step = 0.3, farthest = 7;

static const double LEAST = 1e-12;   /* squared, in a factor that is definite */
static const double per_failure = 3; /* standard scores that a certain failure costs */

/* Normal priors of the logs: of 1 / length, variance, noise. */
static const double prior_mean[3] = {0, 0, -3.5}, prior_spread[3] = {1, 1, 1.5};

static double squared(const double *a, const double *b, int64_t F) {
    double sum = 0;
    for (int64_t j = 0; j < F; j++) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* The correlation at a squared distance, and its slope over that distance. */
static double matern(double away, double *slope) {
    const double r = sqrt(5 * away), e = exp(-r);
    if (slope != NULL) *slope = -(5.0 / 6) * (1 + r) * e;
    return (1 + r + r * r / 3) * e;
}

/* inverse(n, n), lower, of the lower factor L. */
static void invert(const double *L, int64_t n, double *inverse) {
    memset(inverse, 0, (size_t)(n * n) * sizeof *inverse);
    for (int64_t i = 0; i < n; i++) {
        double *row = inverse + i * n;
        for (int64_t k = 0; k < i; k++) {
            const double by = L[i * n + k], *above = inverse + k * n;
            for (int64_t j = 0; j <= k; j++) row[j] -= by * above[j];
        }
        row[i] = 1;
        for (int64_t j = 0; j <= i; j++) row[j] /= L[i * n + i];
    }
}

/* What the search for logs works in. */
typedef struct tuning {
    const double *x, *y;
    int64_t n, F;
    double *xs, *K, *slope, *L, *inverse, *weight, *gradient;
} tuning;

static void scale(const double *x, int64_t n, int64_t F, const double *logs, double *xs) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < F; j++) xs[i * F + j] = x[i * F + j] * exp(logs[j]);
}

static const double *prior_of(const double *table, int64_t j, int64_t F) {
    return table + (j < F ? 0 : j - F + 1);
}

/* d(i, j) of the value over the covariance (i, j), i >= j: half of inverse - weight weight^T. */
static double over_covariance(const tuning *t, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t k = i; k < t->n; k++) sum += t->inverse[k * t->n + i] * t->inverse[k * t->n + j];
    return 0.5 * (sum - t->weight[i] * t->weight[j]);
}

static void add_gradient(const tuning *t, double variance, double noise) {
    const int64_t n = t->n, F = t->F;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double d = over_covariance(t, i, j), both = i == j ? 1 : 2;
            t->gradient[F] += both * d * variance * t->K[i * n + j];
            if (i == j) {
                t->gradient[F + 1] += d * noise;
                continue;
            }
            const double by = 2 * both * d * variance * t->slope[i * n + j];
            const double *a = t->xs + i * F, *b = t->xs + j * F;
            for (int64_t c = 0; c < F; c++) t->gradient[c] += by * (a[c] - b[c]) * (a[c] - b[c]);
        }
}

/* Minus the logarithm of the posterior of the logs, and its gradient; infinite where the covariance is not definite. */
static double posterior(const tuning *t, const double *logs) {
    const int64_t n = t->n, F = t->F;
    const double variance = exp(logs[F]), noise = exp(logs[F + 1]);
    scale(t->x, n, F, logs, t->xs);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            t->K[i * n + j] = matern(squared(t->xs + i * F, t->xs + j * F, F), &t->slope[i * n + j]);
            t->L[i * n + j] = variance * t->K[i * n + j] + (i == j ? noise + least_noise : 0);
        }
    if (!tg_cholesky(t->L, n, LEAST)) return INFINITY;
    memcpy(t->weight, t->y, (size_t)n * sizeof(double));
    tg_cholesky_solve(t->L, n, t->weight);
    invert(t->L, n, t->inverse);
    double value = 0;
    for (int64_t i = 0; i < n; i++) value += 0.5 * t->y[i] * t->weight[i] + log(t->L[i * n + i]);
    memset(t->gradient, 0, (size_t)(F + 2) * sizeof(double));
    add_gradient(t, variance, noise);
    for (int64_t j = 0; j < F + 2; j++) {
        const double from = (logs[j] - *prior_of(prior_mean, j, F)) / *prior_of(prior_spread, j, F);
        value += 0.5 * from * from;
        t->gradient[j] += from / *prior_of(prior_spread, j, F);
    }
    return value;
}

/* Room, all of it at t->xs, with (F + 2) three times after the gradient; 0 without memory. */
static int begin(tuning *t, const double *x, const double *y, int64_t n, int64_t F) {
    double *block = malloc((size_t)(n * F + 4 * n * n + n + 4 * (F + 2)) * sizeof *block);
    if (block == NULL) return 0;
    double *at = block + n * F;
    *t = (tuning){.x = x, .y = y, .n = n, .F = F, .xs = block, .K = at, .slope = at + n * n};
    t->L = at + 2 * n * n, t->inverse = at + 3 * n * n;
    t->weight = at + 4 * n * n, t->gradient = t->weight + n;
    return 1;
}

tg_status tg_surrogate_tune(const double *x, const double *y, int64_t n, int64_t F, double *logs,
                            tg_cancel *cancel, tg_error *err) {
    tuning t;
    if (!begin(&t, x, y, n, F))
        return tg_fail(err, TG_E_MEMORY, "no memory for a process of %lld rows", (long long)n);
    double *best = t.gradient + F + 2, *step = best + F + 2, *before = step + F + 2;
    double least = INFINITY;
    tg_status status = TG_OK;
    memcpy(best, logs, (size_t)(F + 2) * sizeof *best);
    for (int64_t j = 0; j < F + 2; j++) step[j] = first_step, before[j] = 0;
    for (int k = 0; k < STEPS; k++) {
        if (tg_cancelled(cancel)) {
            status = tg_fail(err, TG_E_CANCELLED, "cancelled");
            break;
        }
        const double value = posterior(&t, logs);
        if (value < least) least = value, memcpy(best, logs, (size_t)(F + 2) * sizeof *best);
        if (!isfinite(value)) break;
        for (int64_t j = 0; j < F + 2; j++) {
            const double turn = t.gradient[j] * before[j];
            step[j] = fmin(most_step, fmax(least_step, step[j] * (turn > 0 ? 1.2 : turn < 0 ? 0.5 : 1)));
            before[j] = turn < 0 ? 0 : t.gradient[j];
            const double moved = logs[j] - (before[j] > 0 ? step[j] : before[j] < 0 ? -step[j] : 0);
            logs[j] = fmin(farthest, fmax(-farthest, moved));
        }
    }
    memcpy(logs, best, (size_t)(F + 2) * sizeof *best);
    free(t.xs);
    return status;
}

tg_status tg_surrogate_posterior(const double *x, const double *y, int64_t n, int64_t F, const double *logs,
                                 double *value, double *gradient, tg_error *err) {
    tuning t;
    if (!begin(&t, x, y, n, F))
        return tg_fail(err, TG_E_MEMORY, "no memory for a process of %lld rows", (long long)n);
    *value = posterior(&t, logs);
    if (isfinite(*value)) memcpy(gradient, t.gradient, (size_t)(F + 2) * sizeof *gradient);
    free(t.xs);
    return TG_OK;
}

void tg_surrogate_free(tg_surrogate *s) {
    free(s->block);
    *s = (tg_surrogate){.block = NULL};
}

tg_status tg_surrogate_fit(tg_surrogate *s, const double *x, const double *y, int64_t n, int64_t F,
                           const double *logs, tg_error *err) {
    *s = (tg_surrogate){.n = n, .F = F};
    s->block = malloc((size_t)(F + 2 + n * F + n * n + 2 * n) * sizeof *s->block);
    if (s->block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a process of %lld rows", (long long)n);
    s->logs = s->block, s->x = s->logs + F + 2, s->factor = s->x + n * F, s->weight = s->factor + n * n;
    s->y = s->weight + n;
    memcpy(s->logs, logs, (size_t)(F + 2) * sizeof *logs);
    memcpy(s->y, y, (size_t)n * sizeof *y);
    scale(x, n, F, logs, s->x);
    const double variance = exp(logs[F]);
    double noise = exp(logs[F + 1]) + least_noise;
    for (int tries = 0; tries < 20; tries++, noise = 2 * noise + 1e-6 * variance) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                s->factor[i * n + j] =
                    variance * matern(squared(s->x + i * F, s->x + j * F, F), NULL) + (i == j ? noise : 0);
        if (tg_cholesky(s->factor, n, LEAST)) break;
    }
    s->logs[F + 1] = log(noise);
    memcpy(s->weight, y, (size_t)n * sizeof *y);
    tg_cholesky_solve(s->factor, n, s->weight);
    return TG_OK;
}

tg_status tg_surrogate_left_out(const tg_surrogate *s, double *mean, tg_error *err) {
    const int64_t n = s->n;
    double *inverse = malloc((size_t)(n * n) * sizeof *inverse);
    if (inverse == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a process of %lld rows", (long long)n);
    invert(s->factor, n, inverse);
    for (int64_t i = 0; i < n; i++) {
        double own = 0;
        for (int64_t k = i; k < n; k++) own += inverse[k * n + i] * inverse[k * n + i];
        mean[i] = s->y[i] - s->weight[i] / own;
    }
    free(inverse);
    return TG_OK;
}

tg_status tg_surrogate_mean(const tg_surrogate *s, const double *pool, int64_t m, double *mean,
                            double *variance, tg_error *err) {
    const int64_t n = s->n, F = s->F;
    const double most = exp(s->logs[F]), sure = most + exp(s->logs[F + 1]);
    double *lengths = malloc((size_t)(F + 1) * sizeof *lengths);
    if (lengths == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a process of %lld columns", (long long)F);
    for (int64_t j = 0; j < F; j++) lengths[j] = exp(s->logs[j]);
#pragma omp parallel for schedule(static) num_threads(tg_threads(20.0 * (double)m * n))
    for (int64_t i = 0; i < m; i++) {
        double sum = 0, likest = 0;
        for (int64_t k = 0; k < n; k++) {
            double away = 0;
            for (int64_t j = 0; j < F; j++) {
                const double d = pool[i * F + j] * lengths[j] - s->x[k * F + j];
                away += d * d;
            }
            const double like = most * matern(away, NULL);
            sum += like * s->weight[k];
            likest = like > likest ? like : likest;
        }
        mean[i] = sum, variance[i] = most - likest * likest / sure;
    }
    free(lengths);
    return TG_OK;
}

/* ---- choosing ---- */

double tg_wanted(double mean, double deviation, double failing, double best, int gaining) {
    if (!gaining) return mean + per_failure * failing - deviation;
    const double ahead = (best - mean) / deviation, share = fmax(1 - failing, 1e-3);
    if (ahead < -5) return -1e-9 * exp(ahead) * deviation * share; /* nothing is left of it, but the order */
    const double below = 0.5 * erfc(-ahead * 0.70710678118654752),
                 there = 0.39894228040143268 * exp(-ahead * ahead / 2);
    return -deviation * (ahead * below + there) * share;
}

/* T(n, TILE): L^-1 times the covariances with n rows of tile pool(count <= TILE, F), already in lengths. */
static void project(const tg_surrogate *s, const double *pool, int64_t count, double *T) {
    const int64_t n = s->n, F = s->F;
    const double most = exp(s->logs[F]);
    for (int64_t i = 0; i < n; i++) {
        double *row = T + i * TILE;
        for (int64_t c = 0; c < TILE; c++)
            row[c] = c < count ? most * matern(squared(pool + c * F, s->x + i * F, F), NULL) : 0;
        for (int64_t k = 0; k < i; k++) {
            const double by = s->factor[i * n + k], *above = T + k * TILE;
            for (int64_t c = 0; c < TILE; c++) row[c] -= by * above[c];
        }
        const double by = 1 / s->factor[i * n + i];
        for (int64_t c = 0; c < TILE; c++) row[c] *= by;
    }
}

typedef struct choosing {
    const tg_surrogate *s;
    int64_t m, tiles, rows; /* rows of a tile of T: those of the process, and those chosen */
    double *pool, *T, *variance, *own;
} choosing;

static double *cell(const choosing *c, int64_t row, int64_t i) {
    return c->T + ((i / TILE) * c->rows + row) * TILE + i % TILE;
}

/* The covariances after number `k` has been chosen: one more row of T. */
static void condition(const choosing *c, int64_t one, int64_t k, double noise) {
    const int64_t F = c->s->F, known = c->s->n + k;
    const double most = exp(c->s->logs[F]), by = 1 / sqrt(fmax(c->variance[one], 0) + noise);
    for (int64_t j = 0; j < known; j++) c->own[j] = *cell(c, j, one);
#pragma omp parallel for schedule(static) num_threads(tg_threads(2.0 * (double)c->m * known))
    for (int64_t tile = 0; tile < c->tiles; tile++) {
        double *row = cell(c, known, tile * TILE);
        const int64_t here = c->m - tile * TILE < TILE ? c->m - tile * TILE : TILE;
        for (int64_t i = 0; i < TILE; i++)
            row[i] = i < here
                         ? most * matern(squared(c->pool + (tile * TILE + i) * F, c->pool + one * F, F), NULL)
                         : 0;
        for (int64_t j = 0; j < known; j++) {
            const double own = c->own[j], *above = cell(c, j, tile * TILE);
            for (int64_t i = 0; i < TILE; i++) row[i] -= own * above[i];
        }
        for (int64_t i = 0; i < here; i++) {
            row[i] *= by;
            c->variance[tile * TILE + i] -= row[i] * row[i];
        }
    }
}

tg_status tg_surrogate_choose(const tg_surrogate *s, const double *pool, int64_t m, const double *mean,
                              const double *failing, int gaining, int64_t count, int64_t *chosen,
                              tg_error *err) {
    const int64_t tiles = (m + TILE - 1) / TILE, rows = s->n + count;
    double *block = malloc((size_t)(tiles * TILE * (s->F + rows + 1) + rows) * sizeof *block);
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory to choose among %lld configs", (long long)m);
    choosing c = {s, m, tiles, rows, block, block + tiles * TILE * s->F, NULL, NULL};
    c.variance = c.T + tiles * TILE * rows, c.own = c.variance + tiles * TILE;
    const double most = exp(s->logs[s->F]), noise = exp(s->logs[s->F + 1]);
    scale(pool, m, s->F, s->logs, c.pool);
#pragma omp parallel for schedule(static) num_threads(tg_threads((double)m * s->n * s->n))
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t here = m - tile * TILE < TILE ? m - tile * TILE : TILE;
        project(s, c.pool + tile * TILE * s->F, here, cell(&c, 0, tile * TILE));
        for (int64_t i = tile * TILE; i < tile * TILE + here; i++) {
            c.variance[i] = most;
            for (int64_t k = 0; k < s->n; k++) c.variance[i] -= *cell(&c, k, i) * *cell(&c, k, i);
        }
    }
    double best = INFINITY;
    for (int64_t i = 0; i < s->n; i++) best = fmin(best, s->y[i]);
    for (int64_t k = 0; k < count; k++) {
        double least = INFINITY;
        chosen[k] = -1;
        for (int64_t i = 0; i < m; i++) {
            int taken = 0;
            for (int64_t j = 0; j < k; j++) taken |= chosen[j] == i;
            const double value =
                tg_wanted(mean[i], sqrt(fmax(c.variance[i], 1e-12)), failing[i], best, gaining);
            if (!taken && (value < least || chosen[k] < 0)) least = value, chosen[k] = i;
        }
        if (k + 1 < count) condition(&c, chosen[k], k, noise);
    }
    free(block);
    return TG_OK;
}
