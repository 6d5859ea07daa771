#include "score/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/run.h"
#include "score/described.h"

/* A chunk is a pass. Its memory is one to three kilobytes per node and config, so small chunks stay in the caches; but
   configs of a node are worked on together, so fewer than eight are slow. As measured. */
enum { ROWS = 1 << 13, MOST_ROWS = 1 << 16 }; /* nodes times configs of a chunk: aimed at, allowed */
enum { FEWEST = 8, ENOUGH = 32 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t tg_network_chunk(const tg_model *model, int64_t most, int64_t nodes) {
    if ((model->flags & TG_ACROSS_CONFIGS) || !model->per_config) return most;
    const int64_t fast = least(ENOUGH, most_of(FEWEST, ROWS / nodes));
    return most_of(1, least(least(most, fast), MOST_ROWS / nodes));
}

/* ---- weights ---- */

/* "F32 of shape (16, 134)" */
static void describe(char *to, size_t size, const tg_tensor *t) {
    char shape[TG_TENSOR_SHAPE];
    tg_tensor_shape(t, shape);
    snprintf(to, size, "%s of shape %s", tg_dtype_name(t->dtype), shape);
}

const tg_tensor *tg_network_tensor(const tg_safetensors *file, const char *name, tg_dtype dtype, int64_t rows,
                                   int64_t cols, tg_error *err) {
    const tg_tensor *t = tg_safetensors_find(file, name);
    const tg_tensor wanted = {.dtype = dtype, .ndim = cols == 0 ? 1 : 2, .shape = {rows, cols}};
    char expected[256], found[256] = "none";
    if (t != NULL && t->dtype == dtype && t->ndim == wanted.ndim && t->shape[0] == rows &&
        (cols == 0 || t->shape[1] == cols))
        return t;
    describe(expected, sizeof expected, &wanted);
    if (t != NULL) describe(found, sizeof found, t);
    tg_bad_field(err, name, expected, "the file is damaged or was changed: write it again", "%s", found);
    return NULL;
}

tg_status tg_take_tensor(const tg_safetensors *file, const char *name, tg_dtype dtype, int64_t rows,
                         int64_t cols, void **to, tg_error *err) {
    const tg_tensor *t = tg_network_tensor(file, name, dtype, rows, cols, err);
    if (t == NULL) return TG_E_DATA;
    *to = malloc((size_t)t->memory + 1);
    if (*to == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %s", name);
    const tg_status status = tg_safetensors_read(file, t, *to, err);
    const double *numbers = *to;
    for (int64_t i = 0; status == TG_OK && dtype == TG_DTYPE_F64 && i < t->count; i++)
        if (!isfinite(numbers[i])) return tg_fail_field(err, name, "finite numbers", "%g", numbers[i]);
    return status;
}

static tg_status read_weights(tg_model *m, const tg_safetensors *file, tg_error *err) {
    for (int i = 0; i < m->n_params; i++)
        if (tg_network_tensor(file, m->params[i].name, TG_DTYPE_F32, m->params[i].rows, m->params[i].cols,
                              err) == NULL)
            return TG_E_DATA;
    tg_status status = tg_model_draw(m, 0, err);
    for (int i = 0; status == TG_OK && i < m->n_params; i++) {
        const tg_tensor *t = tg_safetensors_find(file, m->params[i].name);
        float *to = m->weights + m->params[i].offset;
        status = tg_safetensors_read(file, t, to, err);
        for (int64_t j = 0; status == TG_OK && j < t->count; j++)
            if (!isfinite(to[j]))
                status = tg_fail_field(err, m->params[i].name, "finite numbers", "%g", (double)to[j]);
    }
    return status;
}

static tg_status check_sizes(const tg_network_sizes *s, tg_error *err) {
    const int columns[] = {s->node, s->config, s->graph};
    for (int i = 0; i < 3; i++)
        if (columns[i] < 0 || columns[i] > 1 << 16)
            return tg_fail_field(err, "preprocessing", "steps that give 0..65536 columns", "%d", columns[i]);
    return TG_OK;
}

tg_status tg_network_read(tg_model **model, const tg_json_value *list, const tg_network_sizes *sizes,
                          const tg_safetensors *file, tg_error *err) {
    const tg_model_sizes columns = {sizes->node, sizes->config, sizes->graph, sizes->digits,
                                    sizes->digit_rows};
    *model = NULL;
    tg_status status = check_sizes(sizes, err);
    if (status != TG_OK) return status;
    if ((*model = tg_model_new(&columns)) == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a model");
    status = tg_model_read(*model, NULL, list, NULL, err);
    if (status == TG_OK) status = read_weights(*model, file, err);
    if (status == TG_OK) return TG_OK;
    tg_model_free(*model);
    *model = NULL;
    return status;
}

void tg_network_free(tg_model *model) { tg_model_free(model); }

/* ---- scores ---- */

/* One pass over one of the graphs; `to` (C). */
static tg_status run_pass(const tg_model *model, const tg_scoring *how, const tg_entry *entry, float *to,
                          tg_error *err) {
    tg_pass pass = {.n_entries = 1, .entries = entry, .scores = to, .parts = 1, .cancel = how->cancel};
    pass.precision = (tg_precision)how->precision;
    return tg_model_run(model, how->workspace, &pass, err);
}

/* The sums over all graphs; `part` (C) is free for use. */
static tg_status score_chunk(const tg_model *model, const tg_scoring *how, const tg_graph *const *graphs,
                             int n_graphs, const int64_t *rows, int32_t C, float *part, float *scores,
                             tg_error *err) {
    tg_status status = TG_OK;
    for (int g = 0; status == TG_OK && g < n_graphs; g++) {
        const tg_entry entry = {graphs[g], rows, C};
        status = run_pass(model, how, &entry, g == 0 ? scores : part, err);
        for (int32_t i = 0; status == TG_OK && g > 0 && i < C; i++) scores[i] += part[i];
    }
    for (int32_t i = 0; status == TG_OK && i < C; i++)
        if (!isfinite(scores[i]))
            return tg_fail(err, TG_E_NOT_FINITE,
                           "the score of config %lld is %g: the ranker's weights are not usable; train "
                           "again, with a smaller learning_rate",
                           (long long)rows[i], (double)scores[i]);
    return status;
}

static tg_status score_chunks(const tg_model *model, const tg_scoring *how, const tg_graph *const *graphs,
                              int n_graphs, const int64_t *given, int64_t n, int64_t chunk, int64_t *rows,
                              float *part, float *scores, tg_error *err) {
    const int64_t chunks = (n + chunk - 1) / chunk;
    tg_status status = TG_OK;
    for (int64_t i = 0, begin = 0; status == TG_OK && i < chunks; i++) {
        const int64_t size = n / chunks + (i < n % chunks); /* the first n % chunks have one more */
        for (int64_t j = 0; given == NULL && j < size; j++) rows[j] = begin + j;
        status = score_chunk(model, how, graphs, n_graphs, given == NULL ? rows : given + begin,
                             (int32_t)size, part, scores + begin, err);
        if (status == TG_OK && how->done != NULL && how->done(how->context, size) != 0)
            status = tg_fail(err, TG_E_CANCELLED, "stopped");
        begin += size;
    }
    return status;
}

tg_status tg_network_scores(const tg_model *model, const tg_graph *const *graphs, int n_graphs,
                            const int64_t *rows, int64_t n, const tg_scoring *how, float *scores,
                            tg_error *err) {
    for (int g = 0; g < n_graphs; g++) {
        const char *lacks = tg_model_lacks(model, graphs[g]);
        if (lacks != NULL)
            return tg_fail(err, TG_E_DATA,
                           "expected a graph of the kind that the ranker learnt from, found %s", lacks);
    }
    const int64_t chunk = least(n, tg_network_chunk(model, how->most, graphs[0]->N));
    int64_t *some = malloc((size_t)chunk * (sizeof *some + sizeof *scores) + 1);
    if (some == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)chunk);
    tg_workspace ws = {0};
    tg_scoring own = *how;
    if (own.workspace == NULL) own.workspace = &ws;
    const tg_status status = n == 0 ? TG_OK
                                    : score_chunks(model, &own, graphs, n_graphs, rows, n, chunk, some,
                                                   (float *)(some + chunk), scores, err);
    tg_workspace_free(&ws);
    free(some);
    return status;
}
