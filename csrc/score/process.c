#include "score/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "score/network.h"

enum { MOST = 2000 };
static const double FLOOR = 1e-3, LEAST = 1e-9;

struct tg_process {
    int columns;  /* of a row */
    int64_t F, N; /* columns that count; training configs */
    int64_t *column;
    double *mean, *scale, *logs; /* (F), (F), (F+2): logarithms of 1/length, variance and noise */
    double *x, *weight;          /* (N,F), times 1/length; (N) */
};

/* ---- reading ---- */

static tg_status take(const tg_safetensors *file, const char *name, tg_dtype dtype, int64_t rows,
                      int64_t cols, void *to, tg_error *err) {
    const tg_tensor *t = tg_network_tensor(file, name, dtype, rows, cols, err);
    if (t == NULL) return TG_E_DATA;
    *(void **)to = malloc((size_t)t->memory + 1);
    if (*(void **)to == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %s", name);
    const tg_status status = tg_safetensors_read(file, t, *(void **)to, err);
    const double *numbers = *(double **)to;
    for (int64_t i = 0; status == TG_OK && dtype == TG_DTYPE_F64 && i < t->count; i++)
        if (!isfinite(numbers[i])) return tg_fail_field(err, name, "finite numbers", "%g", numbers[i]);
    return status;
}

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

/* weight = y divided by the covariance of the training configs, by its root L (N,N): L L' weight = y. */
static tg_status solve(tg_process *p, double *L, tg_error *err) {
    const int64_t N = p->N;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = covariance(p, p->x + i * p->F, p->x + j * p->F);
            if (i == j) sum += exp(p->logs[p->F + 1]) + FLOOR;
            for (int64_t k = 0; k < j; k++) sum -= L[i * N + k] * L[j * N + k];
            if (i == j && !(sum > 0))
                return tg_fail_field(err, "logs", "those of a covariance", "others: it has no root");
            L[i * N + j] = i == j ? sqrt(sum) : sum / L[j * N + j];
        }
    for (int64_t i = 0; i < N; i++) {
        for (int64_t k = 0; k < i; k++) p->weight[i] -= L[i * N + k] * p->weight[k];
        p->weight[i] /= L[i * N + i];
    }
    for (int64_t i = N - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < N; k++) p->weight[i] -= L[k * N + i] * p->weight[k];
        p->weight[i] /= L[i * N + i];
    }
    return TG_OK;
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

static tg_status factor(tg_process *p, tg_error *err) {
    for (int64_t i = 0; i < p->N * p->F; i++) p->x[i] *= exp(p->logs[i % p->F]);
    double *L = malloc((size_t)(p->N * p->N) * sizeof *L + 1);
    const tg_status status =
        L == NULL ? tg_fail(err, TG_E_MEMORY, "no memory for a covariance") : solve(p, L, err);
    free(L);
    return status;
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
    if (status == TG_OK) status = take(file, "column", TG_DTYPE_I64, p->F, 0, &p->column, err);
    if (status == TG_OK) status = take(file, "mean", TG_DTYPE_F64, p->F, 0, &p->mean, err);
    if (status == TG_OK) status = take(file, "scale", TG_DTYPE_F64, p->F, 0, &p->scale, err);
    if (status == TG_OK) status = take(file, "logs", TG_DTYPE_F64, p->F + 2, 0, &p->logs, err);
    if (status == TG_OK) status = take(file, "x", TG_DTYPE_F64, p->N, p->F, &p->x, err);
    if (status == TG_OK) status = take(file, "y", TG_DTYPE_F64, p->N, 0, &p->weight, err);
    if (status == TG_OK) status = check(p, err);
    if (status == TG_OK) status = factor(p, err);
    if (status == TG_OK) return TG_OK;
    tg_process_free(p);
    *process = NULL;
    return status;
}

void tg_process_free(tg_process *p) {
    if (p == NULL) return;
    void *const arrays[] = {p->column, p->mean, p->scale, p->logs, p->x, p->weight};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    free(p);
}

/* ---- scores ---- */

tg_status tg_process_scores(const tg_process *p, const float *rows, int64_t n, float *scores, tg_error *err) {
    double *x = malloc((size_t)p->F * sizeof *x);
    if (x == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a config");
    tg_status status = TG_OK;
    for (int64_t i = 0; i < n && status == TG_OK; i++) {
        for (int64_t f = 0; f < p->F; f++)
            x[f] = ((double)rows[i * p->columns + p->column[f]] - p->mean[f]) / p->scale[f] * exp(p->logs[f]);
        double sum = 0;
        for (int64_t j = 0; j < p->N; j++) sum += covariance(p, x, p->x + j * p->F) * p->weight[j];
        scores[i] = (float)sum;
        if (!isfinite(scores[i]))
            status = tg_fail(err, TG_E_NOT_FINITE, "the score of config %lld is %g", (long long)i, sum);
    }
    free(x);
    return status;
}
