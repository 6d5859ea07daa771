#include "score/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cholesky.h"
#include "score/network.h"
#include "score/together.h"

enum { MOST = 2000 };
enum { CANDIDATES = 500, CLOSELY = 2000, SAMPLES = 512 }; /* of a choice, as in tpugraphs/ranker/process.py */
static const double FLOOR = 1e-3, LEAST = 1e-9;

struct tg_process {
    int columns;  /* of a row */
    int64_t F, N; /* columns that count; training configs */
    int64_t *column;
    double *mean, *scale, *logs; /* (F), (F), (F+2): logarithms of 1/length, variance and noise */
    double *x, *weight;          /* (N,F), times 1/length; (N) */
    double *factor;              /* (N,N) of the covariance of the training configs, with noise */
};

/* ---- reading ---- */

static int64_t count_of(const tg_safetensors *file, const char *name) {
    const tg_tensor *t = tg_safetensors_find(file, name);
    return t == NULL ? 0 : t->count;
}

static double covariance(const tg_process *p, const double *x, const double *z) {
    double squares = 0;
    for (int64_t f = 0; f < p->F; f++) squares += (x[f] - z[f]) * (x[f] - z[f]);
    const double away = sqrt(3 * (squares > 1e-12 ? squares : 1e-12));
    return (1 + away) * (exp(p->logs[p->F]) * exp(-away));
}

static tg_status check(const tg_process *p, tg_error *err) {
    for (int64_t f = 0; f < p->F; f++) {
        if (p->column[f] < 0 || p->column[f] >= p->columns)
            return tg_fail_field(err, "column", "prepared columns", "%lld of %d", (long long)p->column[f],
                                 p->columns);
        if (p->scale[f] < LEAST) return tg_fail_field(err, "scale", "at least 1e-9", "%g", p->scale[f]);
    }
    for (int64_t f = 0; f < p->F + 2; f++)
        if (fabs(p->logs[f]) > 300) return tg_fail_field(err, "logs", "numbers within 300", "%g", p->logs[f]);
    return TG_OK;
}

/* The covariance's factor, and weight, which was y, divided by the covariance. */
static tg_status factor(tg_process *p, tg_error *err) {
    const int64_t N = p->N;
    for (int64_t i = 0; i < N * p->F; i++) p->x[i] *= exp(p->logs[i % p->F]);
    if ((p->factor = malloc((size_t)(N * N) * sizeof *p->factor + 1)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a covariance");
    for (int64_t i = 0; i < N; i++) {
        double *row = p->factor + i * N;
        for (int64_t j = 0; j <= i; j++) row[j] = covariance(p, p->x + i * p->F, p->x + j * p->F);
        row[i] += exp(p->logs[p->F + 1]) + FLOOR;
    }
    if (!tg_cholesky(p->factor, N, 0))
        return tg_fail_field(err, "logs", "those of a covariance", "others: it has no root");
    tg_cholesky_solve(p->factor, N, p->weight);
    return TG_OK;
}

tg_status tg_process_read(tg_process **process, const tg_safetensors *file, int columns, tg_error *err) {
    tg_process *p = calloc(1, sizeof *p);
    *process = p;
    if (p == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a process");
    p->columns = columns;
    p->F = count_of(file, "column");
    p->N = count_of(file, "y");
    tg_status status = TG_OK;
    if (p->F < 1 || p->N < 1 || p->N > MOST || p->F > columns)
        status = tg_fail_field(err, "x", "1..2000 configs with some columns", "%lld of %lld", (long long)p->N,
                               (long long)p->F);
    if (status == TG_OK)
        status = tg_take_tensor(file, "column", TG_DTYPE_I64, p->F, 0, (void **)&p->column, err);
    if (status == TG_OK) status = tg_take_tensor(file, "mean", TG_DTYPE_F64, p->F, 0, (void **)&p->mean, err);
    if (status == TG_OK)
        status = tg_take_tensor(file, "scale", TG_DTYPE_F64, p->F, 0, (void **)&p->scale, err);
    if (status == TG_OK)
        status = tg_take_tensor(file, "logs", TG_DTYPE_F64, p->F + 2, 0, (void **)&p->logs, err);
    if (status == TG_OK) status = tg_take_tensor(file, "x", TG_DTYPE_F64, p->N, p->F, (void **)&p->x, err);
    if (status == TG_OK) status = tg_take_tensor(file, "y", TG_DTYPE_F64, p->N, 0, (void **)&p->weight, err);
    if (status == TG_OK) status = check(p, err);
    if (status == TG_OK) status = factor(p, err);
    if (status == TG_OK) return TG_OK;
    tg_process_free(p);
    *process = NULL;
    return status;
}

void tg_process_free(tg_process *p) {
    if (p == NULL) return;
    void *const arrays[] = {p->column, p->mean, p->scale, p->logs, p->x, p->weight, p->factor};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    free(p);
}

/* ---- scores ---- */

/* x (F): what counts of a prepared row. */
static void take_row(const tg_process *p, const float *row, double *x) {
    for (int64_t f = 0; f < p->F; f++)
        x[f] = ((double)row[p->column[f]] - p->mean[f]) / p->scale[f] * exp(p->logs[f]);
}

/* The mean of x (F); near (N), if given, gets its covariances with the training configs. */
static double mean_of(const tg_process *p, const double *x, double *near) {
    double sum = 0;
    for (int64_t j = 0; j < p->N; j++) {
        const double alike = covariance(p, x, p->x + j * p->F);
        if (near != NULL) near[j] = alike;
        sum += alike * p->weight[j];
    }
    return sum;
}

tg_status tg_process_scores(const tg_process *p, const float *rows, int64_t n, float *scores, tg_error *err) {
    double *x = malloc((size_t)p->F * sizeof *x);
    if (x == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a config");
    tg_status status = TG_OK;
    for (int64_t i = 0; i < n && status == TG_OK; i++) {
        take_row(p, rows + i * p->columns, x);
        const double mean = mean_of(p, x, NULL);
        scores[i] = (float)mean;
        if (!isfinite(scores[i]))
            status = tg_fail(err, TG_E_NOT_FINITE, "the score of config %lld is %g", (long long)i, mean);
    }
    free(x);
    return status;
}

/* ---- choices ---- */

/* A config: what counts of it, its number, mean and deviation. */
typedef struct candidate {
    const double *x;
    int64_t F, row;
    double mean, hope; /* hope: mean less deviation */
} candidate;

static int by_columns(const void *a, const void *b) {
    const candidate *one = a, *other = b;
    for (int64_t f = 0; f < one->F; f++)
        if (one->x[f] != other->x[f]) return one->x[f] < other->x[f] ? -1 : 1;
    return one->row < other->row ? -1 : 1;
}
static int by_hope(const void *a, const void *b) {
    const candidate *one = a, *other = b;
    if (one->hope != other->hope) return one->hope < other->hope ? -1 : 1;
    return one->row < other->row ? -1 : 1;
}
static int by_mean(const void *a, const void *b) {
    const candidate *one = a, *other = b;
    if (one->mean != other->mean) return one->mean < other->mean ? -1 : 1;
    return one->row < other->row ? -1 : 1;
}

/* The first of each group of equal configs, of which all[0..n) is sorted; returns how many. */
static int64_t keep_first(candidate *all, int64_t n) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int same = kept > 0;
        for (int64_t f = 0; same && f < all[i].F; f++) same = all[i].x[f] == all[kept - 1].x[f];
        if (!same) all[kept++] = all[i];
    }
    return kept;
}

/* Mean and covariance of the candidates given what was learnt: known (n,N) is room. */
static void condition(const tg_process *p, const candidate *of, int64_t n, double *known, double *mean,
                      double *both) {
    for (int64_t i = 0; i < n; i++) {
        mean[i] = mean_of(p, of[i].x, known + i * p->N);
        tg_cholesky_forward(p->factor, p->N, known + i * p->N);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = covariance(p, of[i].x, of[j].x);
            for (int64_t k = 0; k < p->N; k++) sum -= known[i * p->N + k] * known[j * p->N + k];
            both[i * n + j] = sum;
        }
}

/* chosen (k): rows of `all`, by samples of the process. */
static tg_status choose_closely(const tg_process *p, uint64_t seed, candidate *all, int64_t n, int64_t k,
                                int64_t *chosen, tg_error *err) {
    double *block = malloc((size_t)(n * p->N + n + n * n) * sizeof *block + 1);
    double *mean = block + n * p->N, *both = mean + n;
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    condition(p, all, n, block, mean, both);
    const tg_status status = tg_normal_together(mean, both, n, SAMPLES, seed, k, chosen, NULL, err);
    for (int64_t i = 0; i < k && status == TG_OK; i++) chosen[i] = all[chosen[i]].row;
    free(block);
    return status;
}

/* The k - done best by mean of those that are not among chosen (done). */
static void choose_rest(candidate *all, int64_t n, int64_t done, int64_t k, int64_t *chosen) {
    qsort(all, (size_t)n, sizeof *all, by_mean);
    for (int64_t i = 0, at = done; i < n && at < k; i++) {
        int taken = 0;
        for (int64_t c = 0; c < done && !taken; c++) taken = chosen[c] == all[i].row;
        if (!taken) chosen[at++] = all[i].row;
    }
}

/* all (n) of rows: x (n,F) and near (N) are room. */
static void look(const tg_process *p, const float *rows, int64_t n, double *x, double *near, candidate *all) {
    const double most = exp(p->logs[p->F]);
    for (int64_t i = 0; i < n; i++, x += p->F) {
        take_row(p, rows + i * p->columns, x);
        all[i] = (candidate){.x = x, .F = p->F, .row = i, .mean = mean_of(p, x, near)};
        tg_cholesky_forward(p->factor, p->N, near);
        double variance = most;
        for (int64_t k = 0; k < p->N; k++) variance -= near[k] * near[k];
        all[i].hope = all[i].mean - sqrt(variance > 0 ? variance : 0);
    }
}

tg_status tg_process_choose(const tg_process *p, const float *rows, int64_t n, uint64_t seed, int64_t k,
                            int64_t *chosen, tg_error *err) {
    const int64_t wanted = 2 * k > CANDIDATES ? 2 * k : CANDIDATES;
    double *x = malloc((size_t)(n * p->F + p->N) * sizeof *x + 1);
    candidate *all = malloc((size_t)(2 * n) * sizeof *all + 1), *distinct = all + n;
    tg_status status = TG_OK;
    if (x == NULL || all == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    if (status == TG_OK) {
        look(p, rows, n, x, x + n * p->F, all);
        memcpy(distinct, all, (size_t)n * sizeof *all);
        qsort(distinct, (size_t)n, sizeof *all, by_columns);
        int64_t closely = keep_first(distinct, n);
        qsort(distinct, (size_t)closely, sizeof *all, by_hope);
        if (closely > wanted) closely = wanted;
        if (closely > CLOSELY) closely = CLOSELY;
        const int64_t now = k < closely ? k : closely;
        status = choose_closely(p, seed, distinct, closely, now, chosen, err);
        if (status == TG_OK) choose_rest(all, n, now, k, chosen);
    }
    free(all);
    free(x);
    return status;
}
