#include "score/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "score/network.h"

enum { MOST = 1000 };
static const double COMMON = 10, LEAST = 1e-100; /* variance of the effect on all programs; a scale */

/* Programs or configs that were learnt from, in the columns that count. */
typedef struct learnt {
    int64_t rows, F;
    int64_t *column;
    double *mean, *scale, *x; /* (F), (F), (rows,F) */
} learnt;

struct tg_tasks {
    int columns;
    learnt program, config;
    double *weight; /* (programs, configs) */
};

/* ---- reading ---- */

static tg_status read_learnt(learnt *l, const char *kind, int given, const tg_safetensors *file,
                             tg_error *err) {
    char column[16], mean[16], scale[16];
    snprintf(column, sizeof column, "%s.column", kind);
    snprintf(mean, sizeof mean, "%s.mean", kind);
    snprintf(scale, sizeof scale, "%s.scale", kind);
    const tg_tensor *table = tg_safetensors_find(file, kind), *of = tg_safetensors_find(file, column);
    l->rows = table == NULL || table->ndim < 1 ? 0 : table->shape[0];
    l->F = of == NULL ? 0 : of->count;
    if (l->rows < 1 || l->rows > MOST || l->F > given)
        return tg_fail_field(err, kind, "1..1000 rows of existing columns", "%lld of %lld",
                             (long long)l->rows, (long long)l->F);
    tg_status status = tg_take_tensor(file, column, TG_DTYPE_I64, l->F, 0, (void **)&l->column, err);
    if (status == TG_OK) status = tg_take_tensor(file, mean, TG_DTYPE_F64, l->F, 0, (void **)&l->mean, err);
    if (status == TG_OK) status = tg_take_tensor(file, scale, TG_DTYPE_F64, l->F, 0, (void **)&l->scale, err);
    if (status == TG_OK && l->F > 0)
        status = tg_take_tensor(file, kind, TG_DTYPE_F64, l->rows, l->F, (void **)&l->x, err);
    for (int64_t f = 0; status == TG_OK && f < l->F; f++) {
        if (l->column[f] < 0 || l->column[f] >= given)
            status =
                tg_fail_field(err, column, "existing columns", "%lld of %d", (long long)l->column[f], given);
        else if (l->scale[f] < LEAST)
            status = tg_fail_field(err, scale, "at least 1e-100", "%g", l->scale[f]);
    }
    return status;
}

static void free_learnt(learnt *l) {
    free(l->column);
    free(l->mean);
    free(l->scale);
    free(l->x);
}

tg_status tg_tasks_read(tg_tasks **tasks, const tg_safetensors *file, int described, int columns,
                        tg_error *err) {
    tg_tasks *t = *tasks = calloc(1, sizeof *t);
    if (t == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a process");
    t->columns = columns;
    tg_status status = read_learnt(&t->program, "program", described, file, err);
    if (status == TG_OK) status = read_learnt(&t->config, "config", columns, file, err);
    if (status == TG_OK)
        status = tg_take_tensor(file, "weight", TG_DTYPE_F64, t->program.rows, t->config.rows,
                                (void **)&t->weight, err);
    if (status == TG_OK) return TG_OK;
    tg_tasks_free(t);
    *tasks = NULL;
    return status;
}

void tg_tasks_free(tg_tasks *t) {
    if (t == NULL) return;
    free_learnt(&t->program);
    free_learnt(&t->config);
    free(t->weight);
    free(t);
}

/* ---- scores ---- */

/* How alike x (F), standardised, and row i are. */
static double alike(const learnt *l, const double *x, int64_t i) {
    double squares = 0;
    for (int64_t f = 0; f < l->F; f++) squares += (x[f] - l->x[i * l->F + f]) * (x[f] - l->x[i * l->F + f]);
    return exp(-0.5 * squares);
}

static double standard(const learnt *l, int64_t f, double value) {
    return (value - l->mean[f]) / l->scale[f];
}

/* weight (configs): of all programs, by how alike this one is. */
static void weigh(const tg_tasks *t, const double *program, double *x, double *weight) {
    const int64_t U = t->config.rows;
    for (int64_t f = 0; f < t->program.F; f++) x[f] = standard(&t->program, f, program[t->program.column[f]]);
    for (int64_t u = 0; u < U; u++) weight[u] = 0;
    for (int64_t p = 0; p < t->program.rows; p++) {
        const double share = COMMON + alike(&t->program, x, p);
        for (int64_t u = 0; u < U; u++) weight[u] += share * t->weight[p * U + u];
    }
}

tg_status tg_tasks_scores(const tg_tasks *t, const double *program, const float *rows, int64_t n,
                          float *scores, tg_error *err) {
    const learnt *l = &t->config;
    double *x = malloc((size_t)(t->program.F + l->F + l->rows) * sizeof *x);
    if (x == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a config");
    double *weight = x + t->program.F + l->F;
    tg_status status = TG_OK;
    weigh(t, program, x, weight);
    for (int64_t i = 0; i < n && status == TG_OK; i++) {
        for (int64_t f = 0; f < l->F; f++) x[f] = standard(l, f, (double)rows[i * t->columns + l->column[f]]);
        double sum = 0;
        for (int64_t u = 0; u < l->rows; u++) sum += alike(l, x, u) * weight[u];
        scores[i] = (float)sum;
        if (!isfinite(scores[i]))
            status = tg_fail(err, TG_E_NOT_FINITE, "the score of config %lld is %g", (long long)i, sum);
    }
    free(x);
    return status;
}
