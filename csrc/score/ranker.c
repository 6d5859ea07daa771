#include "score/ranker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "io/source.h"
#include "features/schema.h"
#include "model/segment.h"
#include "prepare/program.h"
#include "score/described.h"
#include "score/digests.h"
#include "score/network.h"
#include "score/treeranker.h"

enum { VERSION = 1, FEATURE_SCHEMA = 1, MOST_CHUNK = 1 << 20, MOST_ITEMS = INT32_MAX / 2 };
static const int64_t MOST_CELLS = (int64_t)1 << 44; /* their digits or features can be counted in bytes */

struct tg_ranker {
    tg_program program;
    struct tg_model *model;
    tg_treeranker *trees; /* in place of program and model, or NULL */
    int precision, digits, digit_rows;
    int own_digits; /* they are those of a schema: values are in -1..digit_values[column]-1 */
    int8_t digit_values[TG_MOST_DIGITS];
    int64_t chunk;
};

/* ---- metadata ---- */

/* The number under `name` is that of the format that is read here. */
static tg_status check_version(const tg_json_value *root, const char *name, int64_t version, tg_error *err) {
    const tg_json_value *value = tg_json_find(root, name);
    char expected[32];
    if (value != NULL && value->is_whole && value->whole == version) return TG_OK;
    snprintf(expected, sizeof expected, "%lld", (long long)version);
    return tg_described_wrong(err, name, expected, "use the version of tpugraphs that wrote it", value);
}

/* The whole number in low..high under `name`. */
static tg_status take_whole(const tg_json_value *object, const char *name, int64_t low, int64_t high,
                            int64_t *to, tg_error *err) {
    const tg_json_value *value = tg_json_find(object, name);
    char expected[80];
    if (value != NULL && value->is_whole && value->whole >= low && value->whole <= high) {
        *to = value->whole;
        return TG_OK;
    }
    snprintf(expected, sizeof expected, "a whole number in %lld..%lld", (long long)low, (long long)high);
    return tg_described_wrong(err, name, expected, NULL, value);
}

static tg_status take_precision(const tg_json_value *value, int *precision, tg_error *err) {
    *precision = value != NULL && value->kind == TG_JSON_STRING ? tg_find_precision(value->text) : -1;
    return *precision >= 0 ? TG_OK : tg_described_wrong(err, "precision", "'f32' or 'bf16'", NULL, value);
}

/* Digits of the configurable nodes of a schema. */
static tg_status take_digits(tg_ranker *r, const tg_json_value *schema, tg_error *err) {
    const tg_json_value *digits = tg_json_find(schema, "digits");
    if (digits == NULL || digits->kind != TG_JSON_ARRAY || digits->count > TG_MOST_DIGITS)
        return tg_described_wrong(err, "schema", "a list of at most 64 'digits'", NULL, digits);
    r->own_digits = 1;
    r->digits = r->digit_rows = 0;
    for (const tg_json_value *v = digits->first; v != NULL; v = v->next) {
        int64_t values = 0;
        const tg_status status = take_whole(v, "values", 2, TG_MOST_DIGIT_VALUES, &values, err);
        if (status != TG_OK) return status;
        r->digit_values[r->digits++] = (int8_t)values;
        if (r->digit_rows < values + 2) r->digit_rows = (int)values + 2;
    }
    return TG_OK;
}

static tg_status check_file(const tg_json_value *root, tg_error *err) {
    const tg_json_value *kind = tg_json_find(root, "kind");
    if (!tg_json_is(kind, "ranker"))
        return tg_described_wrong(err, "kind", "'ranker'", "give the file of a ranker", kind);
    const tg_status status = check_version(root, "version", VERSION, err);
    return status == TG_OK ? check_version(root, "feature_schema", FEATURE_SCHEMA, err) : status;
}

static tg_status take_metadata(tg_ranker *r, const tg_json_value *root, tg_error *err) {
    const tg_json_value *schema = tg_json_find(root, "schema"), *extra = tg_json_find(root, "extra");
    tg_status status = TG_OK;
    if (extra != NULL)
        status = tg_described_wrong(err, "extra", "no features that a Python function makes",
                                    "score with Python, or train on graphs that hold them", extra);
    if (status == TG_OK) status = take_precision(tg_json_find(root, "precision"), &r->precision, err);
    if (status == TG_OK)
        status = take_whole(tg_json_find(root, "fields"), "chunk", 1, MOST_CHUNK, &r->chunk, err);
    r->digits = TG_DIGITS;
    r->digit_rows = TG_DIGIT_STATES;
    if (status == TG_OK && schema != NULL) status = take_digits(r, schema, err);
    return status;
}

/* ---- opening ---- */

/* What the preprocessing has learnt. */
static tg_status read_state(tg_program *p, const tg_safetensors *file, tg_error *err) {
    for (int i = 0; i < p->n; i++)
        for (int s = 0; s < p->use[i].n_states; s++) {
            const tg_step_state *state = &p->use[i].state[s];
            const tg_tensor *t = tg_network_tensor(
                file, state->name, state->whole ? TG_DTYPE_I64 : TG_DTYPE_F64, state->n, 0, err);
            if (t == NULL) return TG_E_DATA;
            const tg_status status = tg_safetensors_read(file, t, state->data, err);
            if (status != TG_OK) return status;
        }
    return tg_program_restored(p, err);
}

static int columns(const tg_ranker *r, tg_table table) {
    return r->program.after.cols[table] < 0 ? 0 : r->program.after.cols[table];
}

static tg_status make(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root, tg_error *err) {
    tg_status status = check_file(root, err);
    if (status == TG_OK && tg_json_find(root, "boosters") != NULL)
        return tg_treeranker_read(&r->trees, root, file, err);
    if (status == TG_OK) status = take_metadata(r, root, err);
    if (!r->own_digits) r->program.node_features = TG_NODE_FEATURES;
    if (status == TG_OK) status = tg_program_read(&r->program, tg_json_find(root, "preprocessing"), err);
    if (status == TG_OK) status = read_state(&r->program, file, err);
    if (status != TG_OK) return status;
    const tg_network_sizes sizes = {columns(r, TG_TABLE_NODE), columns(r, TG_TABLE_CONFIG),
                                    columns(r, TG_TABLE_GRAPH), r->digits, r->digit_rows};
    return tg_network_read(&r->model, tg_json_find(root, "steps"), &sizes, file, err);
}

static tg_status read_file(tg_ranker *r, const tg_safetensors *file, tg_error *err) {
    tg_json_tree tree;
    for (int i = 0; i < file->notes; i++) {
        const tg_note *note = &file->note[i];
        if (strcmp(note->key.bytes, "tpugraphs") != 0) continue;
        tg_status status = tg_json_read(&tree, "metadata", note->value.bytes, note->value.size, err);
        if (status == TG_OK) status = tg_digests_check(file, note->value, tree.root, err);
        if (status == TG_OK) status = make(r, file, tree.root, err);
        tg_json_free(&tree);
        return status;
    }
    return tg_described_wrong(err, "metadata", "the key 'tpugraphs', as Ranker.save writes it",
                              "give the file of a ranker", NULL);
}

/* An error about the file: whatever it was called inside, the file is not a ranker. */
static tg_status in_file(const char *path, tg_status status, tg_error *err) {
    if (status != TG_E_IO && status != TG_E_MEMORY) status = TG_E_CHECKPOINT;
    if (err == NULL) return status;
    tg_error inner = *err;
    err->code = status;
    const int said =
        inner.code == TG_E_CONFIG || inner.code == TG_E_RECIPE; /* what a caller could have written */
    snprintf(err->message, sizeof err->message, "%.200s: %.380s%s%.60s", path, inner.message,
             inner.sys_errno != 0 ? ": "
             : said               ? "; the file is damaged or was changed: write it again"
                                  : "",
             inner.sys_errno != 0 ? strerror(inner.sys_errno) : "");
    tg_error_printable(err);
    return status;
}

tg_status tg_ranker_open(const char *path, tg_ranker **ranker, tg_error *err) {
    tg_source source;
    tg_safetensors file = {.count = 0};
    *ranker = NULL;
    tg_parallel_init();
    tg_status status = tg_source_open(path, "a ranker file", &source, NULL, err);
    if (status == TG_OK && (*ranker = calloc(1, sizeof **ranker)) == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for a ranker");
    if (status == TG_OK) status = tg_safetensors_open(&file, source, err);
    if (status == TG_OK) status = read_file(*ranker, &file, err);
    tg_safetensors_close(&file);
    tg_source_close(&source);
    if (status == TG_OK) return TG_OK;
    tg_ranker_close(*ranker);
    *ranker = NULL;
    return in_file(path, status, err);
}

void tg_ranker_close(tg_ranker *r) {
    if (r == NULL) return;
    tg_program_free(&r->program);
    tg_network_free(r->model);
    tg_treeranker_free(r->trees);
    free(r);
}

/* ---- scoring ---- */

/* 0..most items, and an array of them unless there are none. */
static tg_status check_array(const char *field, int64_t items, int64_t most, const void *array,
                             tg_error *err) {
    if (items < 0 || items > most)
        return tg_fail_field(err, field, "a size that graphs can have", "%lld", (long long)items);
    return items == 0 || array != NULL ? TG_OK : tg_fail_field(err, field, "an array", "none");
}

static tg_status take_graph(const tg_ranker_graph *g, tg_stored *to, tg_error *err) {
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

/* Digits of a schema: every column has values of its own. (Those of all others are checked as they are read.) */
static tg_status check_digits(const tg_ranker *r, const tg_ranker_configs *configs, int64_t nodes,
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

/* Features go into the graph as it is stored, digits into the one to be prepared. */
static tg_status take_configs(const tg_ranker *r, const tg_ranker_configs *c, tg_stored *stored, tg_graph *g,
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

/* scores (n) of the first n configs: of a graph in segments, the sums of theirs in order. */
static tg_status score_network(const tg_ranker *r, const tg_graph *g, int64_t n, float *scores,
                               tg_error *err) {
    const tg_scoring how = {.most = r->chunk, .precision = r->precision};
    const int64_t most = tg_program_segment(&r->program);
    const int32_t segments = most == 0 ? 1 : tg_segments(g->N, most);
    if (segments == 1) return tg_network_scores(r->model, &g, 1, NULL, n, &how, scores, err);
    tg_graph *cut = calloc((size_t)segments, sizeof *cut);
    const tg_graph **each = malloc((size_t)segments * sizeof *each);
    tg_status status =
        cut == NULL || each == NULL ? tg_fail(err, TG_E_MEMORY, "no memory for segments") : TG_OK;
    int32_t made = 0;
    for (; status == TG_OK && made < segments; made++) {
        status = tg_graph_cut(&cut[made], g, most, made, err);
        each[made] = &cut[made];
    }
    if (status == TG_OK) status = tg_network_scores(r->model, each, segments, NULL, n, &how, scores, err);
    for (int32_t i = 0; i < made; i++) tg_graph_free(&cut[i]);
    free(each);
    free(cut);
    return status;
}

/* By trees, which read a graph as it is stored. */
static tg_status score_trees(const tg_ranker *r, const tg_stored *s, const tg_ranker_configs *c,
                             float *scores, tg_error *err) {
    const int64_t cells = c->digits == NULL ? 0 : s->K * c->columns;
    const tg_config_rows rows = {s->N,           s->F,      s->G, s->node_feat, s->graph_feat,
                                 s->config_feat, c->digits, s->T, cells};
    const tg_layout_graph graph = {s->N, s->E, s->K, s->node_feat, s->opcode, s->edges, s->config_nodes};
    return tg_treeranker_scores(r->trees, &graph, &rows, c->count, scores, err);
}

tg_status tg_ranker_score(tg_ranker *r, const tg_ranker_graph *graph, const tg_ranker_configs *configs,
                          float *scores, tg_error *err) {
    tg_graph g = {.D = r->own_digits ? 0 : TG_DIGITS, .digit_rows = r->digit_rows};
    tg_stored stored;
    tg_status status = take_graph(graph, &stored, err);
    if (status == TG_OK)
        status = check_array("configs", configs->count, MOST_CELLS / (graph->config_nodes + 1), scores, err);
    if (status == TG_OK) status = take_configs(r, configs, &stored, &g, err);
    if (status == TG_OK && r->trees != NULL) return score_trees(r, &stored, configs, scores, err);
    if (status == TG_OK)
        status = tg_program_apply(&r->program, &stored, stored.config_feat != NULL, NULL, &g, err);
    if (status == TG_OK) status = score_network(r, &g, configs->count, scores, err);
    tg_graph_free(&g);
    return status;
}
