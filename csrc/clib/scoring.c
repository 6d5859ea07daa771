#include "clib/clib.h"

#include "model/segment.h"

#include <math.h>
#include <string.h>

enum { MOST_ITEMS = INT32_MAX / 2 };
static const int64_t MOST_CELLS = (int64_t)1 << 44; /* their digits or features can be counted in bytes */

/* 0..most items, and an array of them unless there are none. */
static tg_status check_array(const char *field, int64_t items, int64_t most, const void *array,
                             tg_error *err) {
    if (items < 0 || items > most)
        return tg_fail_field(err, field, "a size that graphs can have", "%lld", (long long)items);
    return items == 0 || array != NULL ? TG_OK : tg_fail_field(err, field, "an array", "none");
}

tg_status tg_take_graph(const tg_graph_arrays *g, tg_stored *to, tg_error *err) {
    if (g->nodes < 1) return tg_fail_field(err, "nodes", "at least one", "%lld", (long long)g->nodes);
    tg_status status = check_array("nodes", g->nodes, MOST_ITEMS, g, err);
    if (status == TG_OK)
        status = check_array("node_feat", g->node_columns, TG_MAX_COLUMNS, g->node_feat, err);
    if (status == TG_OK) status = check_array("edge_index", g->edges, MOST_ITEMS, g->edge_index, err);
    if (status == TG_OK)
        status = check_array("node_config_ids", g->config_nodes, g->nodes, g->node_config_ids, err);
    if (status == TG_OK)
        status = check_array("graph_feat", g->graph_columns, TG_MAX_COLUMNS, g->graph_feat, err);
    *to = (tg_stored){.N = g->nodes, .F = g->node_columns, .E = g->edges, .K = g->config_nodes};
    to->node_feat = g->node_feat;
    to->opcode = g->node_opcode;
    to->edges = g->edge_index;
    to->config_nodes = g->node_config_ids;
    to->G = g->graph_columns;
    to->graph_feat = g->graph_feat;
    return status;
}

tg_status tg_take_count(const tg_config_arrays *configs, int64_t config_nodes, const void *scores,
                        tg_error *err) {
    return check_array("configs", configs->count, MOST_CELLS / (config_nodes + 1), scores, err);
}

/* Digits of a schema: every column has values of its own. (Those of all others are checked as they are read.) */
static tg_status check_digits(const tg_ranker *r, const tg_config_arrays *configs, int64_t nodes,
                              tg_error *err) {
    if (!r->own_digits || configs->columns != r->digits) return TG_OK; /* then the model refuses them */
    const int64_t cells = configs->count * nodes;
    for (int64_t cell = 0; cell < cells; cell++)
        for (int d = 0; d < r->digits; d++) {
            const int8_t digit = configs->digits[cell * r->digits + d];
            if (digit < TG_DIGIT_MIN || digit >= r->digit_values[d])
                return tg_fail_field(err, "configs", "digits that the schema has",
                                     "%d in column %d of config %lld", digit, d, (long long)(cell / nodes));
        }
    return TG_OK;
}

tg_status tg_take_configs(const tg_ranker *r, const tg_config_arrays *c, tg_stored *stored, tg_graph *g,
                          tg_error *err) {
    if (c->digits == NULL && c->features == NULL)
        return tg_fail_field(err, "configs", "digits or features", "neither");
    if (c->features != NULL) {
        stored->config_feat = c->features;
        stored->C = c->count, stored->T = c->digits != NULL ? c->feature_columns : c->columns;
        const tg_status status = check_array("configs", stored->T, TG_MAX_COLUMNS, c->features, err);
        if (status != TG_OK || (c->digits == NULL && stored->K == 0)) return status;
        if (c->digits == NULL)
            return tg_fail_field(err, "configs", "digits of the configurable nodes",
                                 "features of whole configs");
    }
    if (stored->K == 0) return tg_fail_field(err, "node_config_ids", "at least one", "none");
    g->digits = c->digits;
    g->C = c->count;
    g->D = (int)c->columns;
    g->has_configs = 1;
    if (c->columns < 1 || c->columns > TG_MOST_DIGITS)
        return tg_fail_field(err, "configs", "1..64 columns of digits", "%lld", (long long)c->columns);
    return check_digits(r, c, stored->K, err);
}

/* ---- segments ---- */

tg_status tg_cuts_make(const tg_ranker *r, const tg_graph *g, tg_graph **cuts, int *n, tg_error *err) {
    const int64_t most = tg_program_segment(&r->program);
    const int32_t segments = most == 0 ? 1 : tg_segments(g->N, most);
    *cuts = NULL;
    *n = 0;
    if (segments == 1) return TG_OK;
    if ((*cuts = calloc((size_t)segments, sizeof **cuts)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for segments");
    tg_status status = TG_OK;
    while (status == TG_OK && *n < segments) {
        status = tg_graph_cut(&(*cuts)[*n], g, most, *n, err);
        if (status == TG_OK) ++*n;
    }
    return status;
}

void tg_cuts_free(tg_graph *cuts, int n) {
    for (int i = 0; i < n; i++) tg_graph_free(&cuts[i]);
    free(cuts);
}

/* ---- scores and choices ---- */

/* scores (n) of the first n configs: of a graph in segments, the sums of theirs in order. */
static tg_status score_network(const tg_ranker *r, const tg_graph *g, int64_t n, float *scores,
                               tg_error *err) {
    const tg_scoring how = {.most = r->chunk, .precision = r->precision};
    tg_graph *cuts;
    int count;
    tg_status status = tg_cuts_make(r, g, &cuts, &count, err);
    const tg_graph **each = status == TG_OK ? calloc((size_t)count + 1, sizeof *each) : NULL;
    if (status == TG_OK && each == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for segments");
    for (int i = 0; status == TG_OK && i < count; i++) each[i] = &cuts[i];
    if (status == TG_OK && cuts == NULL) each[0] = g;
    if (status == TG_OK)
        status = tg_network_scores(r->model, each, cuts == NULL ? 1 : count, NULL, n, &how, scores, err);
    free(each);
    tg_cuts_free(cuts, count);
    return status;
}

#ifdef TG_NETWORKS_ONLY
tg_status tg_score_stored(tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float *scores,
                          tg_error *err) {
    (void)r, (void)s, (void)c, (void)scores;
    return tg_fail(err, TG_E_CONFIG, "this library was compiled for networks alone");
}

tg_status tg_choose_together(tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                             int64_t k, int64_t *best, tg_error *err) {
    (void)graph, (void)k, (void)best;
    return tg_score_stored(r, NULL, configs, NULL, err);
}
#else
static tg_status score_trees(const tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float *scores,
                             tg_error *err) {
    const int64_t cells = c->digits == NULL ? 0 : s->K * c->columns;
    const tg_config_rows rows = {s->N,           s->F,      s->G, s->node_feat, s->graph_feat,
                                 s->config_feat, c->digits, s->T, cells};
    const tg_layout_graph graph = {s->N, s->E, s->K, s->node_feat, s->opcode, s->edges, s->config_nodes};
    return tg_treeranker_scores(r->trees, &graph, &rows, c->count, scores, err);
}

static tg_status score_taken(tg_ranker *r, const tg_stored *s, tg_graph *g, const tg_config_arrays *c,
                             float *scores, tg_error *err);

static tg_status score_base(tg_ranker *base, const tg_stored *s, const tg_config_arrays *c, float *scores,
                            tg_error *err) {
    tg_graph g = {.D = base->own_digits ? 0 : TG_DIGITS, .digit_rows = base->digit_rows};
    tg_stored stored = *s;
    tg_status status = tg_take_configs(base, c, &stored, &g, err);
    if (status == TG_OK) status = score_taken(base, &stored, &g, c, scores, err);
    tg_graph_free(&g);
    return status;
}

/* rows (n, cols + 1): with the scores of the base. */
static tg_status add_base(tg_ranker *base, const tg_stored *s, const tg_config_arrays *c, float **rows,
                          int cols, tg_error *err) {
    const int64_t n = c->count;
    float *wide = malloc((size_t)(n * (cols + 1)) * sizeof *wide + 1),
          *scores = malloc((size_t)n * sizeof *scores + 1);
    tg_status status = TG_OK;
    if (wide == NULL || scores == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    if (status == TG_OK) status = score_base(base, s, c, scores, err);
    for (int64_t i = 0; status == TG_OK && i < n; i++) {
        memcpy(wide + i * (cols + 1), *rows + i * cols, (size_t)cols * sizeof *wide);
        wide[i * (cols + 1) + cols] = scores[i];
    }
    free(scores);
    free(*rows);
    *rows = wide;
    return status;
}

/* The prepared rows of configs; free them also after an error. */
static tg_status process_rows(tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float **rows,
                              tg_error *err) {
    int cols;
    *rows = NULL;
    if (s->config_feat == NULL) return tg_fail_field(err, "configs", "features of whole configs", "digits");
    const tg_status status =
        tg_program_configs(&r->program, s->config_feat, c->count, s->T, rows, &cols, err);
    return status == TG_OK && r->base != NULL ? add_base(r->base, s, c, rows, cols, err) : status;
}

static tg_status score_process(tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float *scores,
                               tg_error *err) {
    float *rows;
    tg_status status = process_rows(r, s, c, &rows, err);
    if (status == TG_OK) status = tg_process_scores(r->process, rows, c->count, scores, err);
    free(rows);
    return status;
}

/* to (described): the prepared features of the program, or ln(1 + count) of every opcode. */
static tg_status describe(tg_ranker *r, const tg_stored *s, double *to, tg_error *err) {
    tg_graph g = {.digit_rows = r->digit_rows};
    if (r->program.after.cols[TG_TABLE_GRAPH] > 0) {
        const tg_status status = tg_program_apply(&r->program, s, 0, NULL, &g, err);
        for (int i = 0; status == TG_OK && i < r->described; i++) to[i] = (double)g.graph_feat[i];
        tg_graph_free(&g);
        return status;
    }
    if (r->described > 0 && s->opcode == NULL) return tg_fail_field(err, "node_opcode", "an array", "none");
    for (int64_t i = 0; i < s->N && r->described > 0; i++) {
        if (s->opcode[i] >= r->described)
            return tg_fail_field(err, "node_opcode", "opcodes of the schema", "%d", s->opcode[i]);
        to[s->opcode[i]]++;
    }
    for (int i = 0; i < r->described; i++) to[i] = log1p(to[i]);
    return TG_OK;
}

static tg_status score_tasks(tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float *scores,
                             tg_error *err) {
    float *rows = NULL;
    double *program = calloc((size_t)r->described + 1, sizeof *program);
    tg_status status =
        program == NULL ? tg_fail(err, TG_E_MEMORY, "no memory for a program") : describe(r, s, program, err);
    if (status == TG_OK) status = process_rows(r, s, c, &rows, err);
    if (status == TG_OK) status = tg_tasks_scores(r->tasks, program, rows, c->count, scores, err);
    free(program);
    free(rows);
    return status;
}

tg_status tg_choose_together(tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                             int64_t k, int64_t *best, tg_error *err) {
    tg_graph g = {.digit_rows = r->digit_rows};
    tg_stored stored;
    float *rows = NULL;
    tg_status status = tg_take_graph(graph, &stored, err);
    if (status == TG_OK) status = tg_take_count(configs, graph->config_nodes, best, err);
    if (status == TG_OK) status = tg_take_configs(r, configs, &stored, &g, err);
    if (status == TG_OK) status = process_rows(r, &stored, configs, &rows, err);
    if (status == TG_OK)
        status = tg_process_choose(r->process, rows, configs->count, (uint64_t)r->seed, k, best, err);
    free(rows);
    return status;
}

tg_status tg_score_stored(tg_ranker *r, const tg_stored *s, const tg_config_arrays *c, float *scores,
                          tg_error *err) {
    if (r->tasks != NULL) return score_tasks(r, s, c, scores, err);
    return r->trees != NULL ? score_trees(r, s, c, scores, err) : score_process(r, s, c, scores, err);
}
#endif

static tg_status score_taken(tg_ranker *r, const tg_stored *s, tg_graph *g, const tg_config_arrays *c,
                             float *scores, tg_error *err) {
    if (r->model == NULL) return tg_score_stored(r, s, c, scores, err);
    const tg_status status = tg_program_apply(&r->program, s, s->config_feat != NULL, NULL, g, err);
    return status == TG_OK ? score_network(r, g, c->count, scores, err) : status;
}

static tg_status score(tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                       float *scores, tg_error *err) {
    tg_graph g = {.D = r->own_digits ? 0 : TG_DIGITS, .digit_rows = r->digit_rows};
    tg_stored stored;
    tg_status status = tg_take_graph(graph, &stored, err);
    if (status == TG_OK) status = tg_take_count(configs, graph->config_nodes, scores, err);
    if (status == TG_OK) status = tg_take_configs(r, configs, &stored, &g, err);
    if (status == TG_OK) status = score_taken(r, &stored, &g, configs, scores, err);
    tg_graph_free(&g);
    return status;
}

tg_status tg_ranker_score(tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                          float *scores, tg_message *message) {
    tg_graph_arrays g;
    tg_config_arrays c;
    tg_scope scope;
    if (r == NULL) return tg_argument(message, "ranker", "an open ranker");
    if (graph == NULL || !tg_take_struct(&g, sizeof g, graph, sizeof g))
        return tg_argument(message, "graph", "a graph, with its size");
    if (configs == NULL || !tg_take_struct(&c, sizeof c, configs, sizeof c))
        return tg_argument(message, "configs", "configs, with their size");
    tg_scope_begin(&scope, &r->heap, &r->spread, r->threads);
    return tg_scope_end(&scope, score(r, &g, &c, scores, &scope.err), message);
}
