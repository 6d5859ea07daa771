#include "clib/clib.h"

#include <string.h>

#include "model/run.h"

/* A session's scores need much memory for a while. All of it comes from one block, whose size a first run has measured: by
   sizes alone, but for what equal cells save, which is not counted on. */
struct tg_session {
    tg_ranker *ranker;
    int threads;
    int busy; /* atomic */
    int64_t most;
    tg_stored stored;      /* without a model; its arrays are copies */
    tg_graph graph;        /* prepared, without configs */
    tg_graph *cuts;        /* its segments, or NULL */
    int n;                 /* graphs that are scored */
    const tg_graph **each; /* (n) */
    tg_workspace workspace;
    tg_pool pool;
    void *copies, *block;
};

enum { SLACK = 1 << 16 };

/* ---- opening ---- */

static void *copy(char **at, const void *from, int64_t count, size_t size) {
    if (from == NULL || count == 0) return NULL;
    void *to = *at;
    memcpy(to, from, (size_t)count * size);
    *at += ((size_t)count * size + 15) / 16 * 16;
    return to;
}

/* Rankers without a model read the graph as it is stored, so it is copied. */
static tg_status copy_stored(tg_session *s, tg_error *err) {
    tg_stored *g = &s->stored;
    const int64_t bytes = g->N * g->F * 4 + g->N + g->E * 16 + g->K * 8 + g->G * 4 + 5 * 16;
    char *at = s->copies = malloc((size_t)bytes);
    if (at == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph of %lld nodes", (long long)g->N);
    g->node_feat = copy(&at, g->node_feat, g->N * g->F, sizeof(float));
    g->edges = copy(&at, g->edges, 2 * g->E, sizeof(int64_t));
    g->config_nodes = copy(&at, g->config_nodes, g->K, sizeof(int64_t));
    g->graph_feat = copy(&at, g->graph_feat, g->G, sizeof(float));
    g->opcode = copy(&at, g->opcode, g->N, 1);
    return TG_OK;
}

static tg_status prepare(tg_session *s, const tg_graph_arrays *graph, tg_error *err) {
    tg_ranker *r = s->ranker;
    tg_status status = tg_take_graph(graph, &s->stored, err);
    if (status == TG_OK && r->model == NULL) return copy_stored(s, err);
    s->graph.D = r->own_digits ? 0 : TG_DIGITS;
    s->graph.digit_rows = r->digit_rows;
    if (status == TG_OK) status = tg_program_apply(&r->program, &s->stored, 0, NULL, &s->graph, err);
    if (status == TG_OK) status = tg_cuts_make(r, &s->graph, &s->cuts, &s->n, err);
    if (status != TG_OK) return status;
    if (s->cuts == NULL) s->n = 1;
    if ((s->each = calloc((size_t)s->n, sizeof *s->each)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for segments");
    for (int i = 0; i < s->n; i++) s->each[i] = s->cuts == NULL ? &s->graph : &s->cuts[i];
    return TG_OK;
}

/* Give the prepared graphs other configs. */
static void set_configs(tg_graph *to, const tg_graph *from) {
    to->C = from->C;
    to->D = from->D;
    to->T = from->T;
    to->has_configs = from->has_configs;
    to->digits = from->digits;
    to->config_feat = from->config_feat;
}

static tg_status score_network(tg_session *s, const tg_config_arrays *c, float *scores, tg_error *err) {
    tg_ranker *r = s->ranker;
    const tg_scoring how = {.most = r->chunk, .precision = r->precision, .workspace = &s->workspace};
    tg_graph g = {.D = r->own_digits ? 0 : TG_DIGITS};
    tg_stored stored = {.K = s->stored.K};
    float *rows = NULL;
    tg_status status = tg_take_configs(r, c, &stored, &g, err);
    if (status == TG_OK && stored.config_feat != NULL) {
        status = tg_program_configs(&r->program, stored.config_feat, stored.C, stored.T, &rows, &g.T, err);
        g.config_feat = rows;
        g.C = stored.C;
        g.has_configs = 1;
    }
    set_configs(&s->graph, &g);
    for (int i = 0; i < s->n && s->cuts != NULL; i++) set_configs(&s->cuts[i], &g);
    if (status == TG_OK)
        status = tg_network_scores(r->model, s->each, s->n, NULL, c->count, &how, scores, err);
    free(rows);
    return status;
}

static tg_status score_stored(tg_session *s, const tg_config_arrays *c, float *scores, tg_error *err) {
    tg_graph none = {0};
    tg_stored stored = s->stored;
    const tg_status status = tg_take_configs(s->ranker, c, &stored, &none, err);
    return status == TG_OK ? tg_score_stored(s->ranker, &stored, c, scores, err) : status;
}

static tg_status score(tg_session *s, const tg_config_arrays *c, float *scores, tg_error *err) {
    tg_status status = tg_take_count(c, s->stored.K, scores, err);
    if (status == TG_OK && c->count > s->most)
        return tg_fail_field(err, "configs", "at most as many as the session was opened for", "%lld of %lld",
                             (long long)c->count, (long long)s->most);
    if (status != TG_OK || c->count == 0) return status;
    return s->ranker->model == NULL ? score_stored(s, c, scores, err) : score_network(s, c, scores, err);
}

/* ---- memory ---- */

/* Configs that any graph may have, to measure by. */
static tg_status blank(const tg_session *s, int64_t n, tg_config_arrays *c, tg_error *err) {
    const tg_ranker *r = s->ranker;
    const int features = r->columns[TG_TABLE_CONFIG].n;
    const int64_t cells = r->tile ? 0 : n * s->stored.K * r->digits;
    int8_t *digits = cells > 0 ? calloc((size_t)cells, 1) : NULL;
    float *rows = features > 0 ? malloc((size_t)(n * features) * sizeof *rows) : NULL;
    *c = (tg_config_arrays){.size = sizeof *c, .count = n, .digits = digits, .features = rows};
    if ((cells > 0 && digits == NULL) || (features > 0 && rows == NULL))
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    for (int64_t i = 0; i < n && features > 0; i++)
        memcpy(rows + i * features, r->fill[TG_TABLE_CONFIG], (size_t)features * sizeof *rows);
    c->columns = digits != NULL ? r->digits : features;
    c->feature_columns = features;
    return TG_OK;
}

/* Memory of passes over the largest chunk, as if no cell were equal to another. */
static tg_status reserve(tg_session *s, int64_t n, tg_error *err) {
    tg_ranker *r = s->ranker;
    int64_t bytes = 0;
    if (r->model == NULL) return TG_OK;
    const int64_t chunk = tg_network_chunk(r->model, r->chunk, s->each[0]->N), C = n < chunk ? n : chunk;
    for (int i = 0; i < s->n; i++) {
        const tg_entry entry = {s->each[i], NULL, (int32_t)C};
        const int64_t needed = tg_model_bytes(r->model, 1, &entry, 0, err);
        if (needed < 0) return err->code;
        if (needed > bytes) bytes = needed;
    }
    return tg_arena_reserve(&s->workspace.arena, (size_t)bytes)
               ? TG_OK
               : tg_fail(err, TG_E_MEMORY, "no memory for a pass of %lld MB", (long long)(bytes >> 20));
}

/* A run from an empty workspace that takes its memory from the pool. */
static tg_status run_blank(tg_session *s, tg_config_arrays *c, int64_t n, float *scores, tg_error *err) {
    const tg_heap *before = tg_heap_enter(&s->pool.heap);
    const int64_t count = c->count;
    c->count = n;
    tg_status status = n == count && s->ranker->model != NULL ? reserve(s, n, err) : TG_OK;
    if (status == TG_OK) status = score(s, c, scores, err);
    c->count = count;
    tg_heap_enter(before);
    return status;
}

/* The largest number of configs of a pass is that of `most`, or of fewer that make one chunk. */
static tg_status run_both(tg_session *s, tg_config_arrays *c, float *scores, tg_error *err) {
    int64_t chunk = c->count;
    if (s->ranker->model != NULL) chunk = tg_network_chunk(s->ranker->model, s->ranker->chunk, s->each[0]->N);
    tg_status status = run_blank(s, c, c->count, scores, err);
    if (status == TG_OK && chunk < c->count) status = run_blank(s, c, chunk, scores, err);
    return status;
}

static void forget_workspace(tg_session *s) { tg_workspace_free(&s->workspace); }

/* The block is as large as a first run has needed, and more; the second shows that it suffices. */
static tg_status take_memory(tg_session *s, tg_error *err) {
    tg_config_arrays c;
    tg_status status = blank(s, s->most, &c, err);
    float *scores = malloc((size_t)s->most * sizeof *scores);
    if (status == TG_OK && scores == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for scores");
    tg_pool_init(&s->pool, NULL, 0, &s->ranker->heap);
    if (status == TG_OK) status = run_both(s, &c, scores, err);
    forget_workspace(s);
    for (size_t size = s->pool.peak + s->pool.peak / 8 + SLACK; status == TG_OK; size *= 2) {
        free(s->block);
        if ((s->block = malloc(size)) == NULL) {
            status = tg_fail(err, TG_E_MEMORY, "no memory for a session of %lld configs", (long long)s->most);
            break;
        }
        tg_pool_init(&s->pool, s->block, size, &s->ranker->heap);
        const tg_status again = run_both(s, &c, scores, err);
        if (again == TG_OK) break;
        memset(&s->workspace, 0, sizeof s->workspace); /* it lies in the block, which is made anew */
        if (again != TG_E_MEMORY) status = again;
    }
    free(scores);
    free((void *)(uintptr_t)c.digits);
    free((void *)(uintptr_t)c.features);
    return status;
}

/* ---- public ---- */

static void release(tg_session *s) {
    tg_cuts_free(s->cuts, s->cuts == NULL ? 0 : s->n);
    tg_graph_free(&s->graph);
    free((void *)s->each);
    free(s->copies);
    free(s->block);
    tg_ranker *r = s->ranker;
    free(s);
    tg_ranker_close(r);
}

static tg_status open_session(tg_session *s, const tg_graph_arrays *graph, tg_error *err) {
    tg_status status = prepare(s, graph, err);
    if (status == TG_OK) status = take_memory(s, err);
    if (s->ranker->model != NULL) { /* these were the caller's */
        s->stored.node_feat = s->stored.graph_feat = NULL;
        s->stored.edges = s->stored.config_nodes = NULL;
        s->stored.opcode = NULL;
    }
    return status;
}

tg_status tg_session_open(tg_ranker *r, const tg_graph_arrays *graph, int64_t most, tg_session **session,
                          tg_message *message) {
    tg_graph_arrays g;
    tg_scope scope;
    if (session == NULL) return tg_argument(message, "session", "a place for the session");
    *session = NULL;
    if (r == NULL) return tg_argument(message, "ranker", "an open ranker");
    if (graph == NULL || !tg_take_struct(&g, sizeof g, graph, sizeof g))
        return tg_argument(message, "graph", "a graph, with its size");
    if (most < 1 || most > INT32_MAX / 2) return tg_argument(message, "most", "at least one config");
    tg_scope_begin(&scope, &r->heap, &r->spread, r->threads);
    tg_session *s = calloc(1, sizeof *s);
    tg_status status = s == NULL ? tg_fail(&scope.err, TG_E_MEMORY, "no memory for a session") : TG_OK;
    if (s != NULL) {
        tg_ranker_keep(r);
        s->ranker = r;
        s->threads = r->threads;
        s->most = most;
        status = open_session(s, &g, &scope.err);
        if (status == TG_OK) *session = s;
        else release(s);
    }
    return tg_scope_end(&scope, status, message);
}

tg_status tg_session_score(tg_session *s, const tg_config_arrays *configs, float *scores,
                           tg_message *message) {
    tg_config_arrays c;
    tg_scope scope;
    if (s == NULL) return tg_argument(message, "session", "an open session");
    if (configs == NULL || !tg_take_struct(&c, sizeof c, configs, sizeof c))
        return tg_argument(message, "configs", "configs, with their size");
    tg_scope_begin(&scope, &s->pool.heap, &s->ranker->spread, s->threads);
    int free_now = 0;
    tg_status status;
    if (!__atomic_compare_exchange_n(&s->busy, &free_now, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        status = tg_fail(&scope.err, TG_E_BUSY, "session: another thread is scoring; open one for each");
    else {
        status = score(s, &c, scores, &scope.err);
        __atomic_store_n(&s->busy, 0, __ATOMIC_RELEASE);
    }
    return tg_scope_end(&scope, status, message);
}

void tg_session_close(tg_session *s) {
    if (s != NULL) release(s);
}
