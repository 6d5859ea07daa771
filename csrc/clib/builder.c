#include "clib/clib.h"

#include <stdio.h>
#include <string.h>

#include "clib/loading.h"
#include "io/source.h"

/* Rows of one size that grow. */
typedef struct rows {
    char *data;
    size_t size; /* of a row */
    int64_t count, room;
} rows;

enum { FEW = 16 };
static const int64_t MOST = INT32_MAX / 2;

struct tg_graph_builder {
    tg_ranker *ranker;
    rows node, opcode, edge, config_node, config, digits;
    int32_t *place; /* (node.room): number among the configurable nodes, or -1 */
    float *graph;
    int64_t configs;
    tg_session *session; /* of the graph as it is, or NULL */
    int64_t most;        /* of the session */
};

static int columns(const tg_graph_builder *b, tg_group group) { return tg_feature_count(b->ranker, group); }

/* ---- rows ---- */

static void *row_at(const rows *r, int64_t i) { return r->data + (size_t)i * r->size; }

/* Room for one more. */
static tg_status make_room(rows *r, tg_error *err) {
    if (r->count < r->room) return TG_OK;
    if (r->count >= MOST) return tg_fail(err, TG_E_CONFIG, "a graph of at most %lld rows", (long long)MOST);
    const int64_t room = r->room == 0 ? FEW : 2 * r->room;
    char *data =
        r->size > (SIZE_MAX >> 1) / (size_t)room ? NULL : realloc(r->data, (size_t)room * r->size + 1);
    if (data == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)room);
    r->data = data;
    r->room = room;
    return TG_OK;
}

static tg_status append(rows *r, const void *row, tg_error *err) {
    const tg_status status = make_room(r, err);
    if (status == TG_OK && r->size > 0) memcpy(row_at(r, r->count), row, r->size);
    if (status == TG_OK) r->count++;
    return status;
}

/* ---- opening ---- */

/* The prepared graph is no longer that of the nodes and edges. */
static void outdate(tg_graph_builder *b) {
    tg_session_close(b->session);
    b->session = NULL;
}

static void fill_graph(tg_graph_builder *b) {
    for (int i = 0; i < columns(b, TG_GRAPH_WIDE); i++)
        b->graph[i] = tg_feature_fill(b->ranker, TG_GRAPH_WIDE, i);
}

static tg_status start(tg_graph_builder *b, tg_error *err) {
    b->node.size = (size_t)columns(b, TG_NODE) * sizeof(float);
    b->opcode.size = 1;
    b->edge.size = 2 * sizeof(int64_t);
    b->config_node.size = sizeof(int64_t);
    b->config.size = (size_t)columns(b, TG_CONFIG) * sizeof(float);
    b->graph = calloc((size_t)columns(b, TG_GRAPH_WIDE) + 1, sizeof *b->graph);
    if (b->graph == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a graph");
    fill_graph(b);
    return TG_OK;
}

tg_status tg_builder_open(tg_ranker *r, tg_graph_builder **builder, tg_message *message) {
    tg_scope scope;
    if (builder == NULL) return tg_argument(message, "builder", "a place for the builder");
    *builder = NULL;
    if (r == NULL) return tg_argument(message, "ranker", "an open ranker");
    tg_scope_begin(&scope, &r->heap, &r->spread, 1);
    tg_graph_builder *b = calloc(1, sizeof *b);
    tg_status status = b == NULL ? tg_fail(&scope.err, TG_E_MEMORY, "no memory for a graph") : TG_OK;
    if (b != NULL) {
        tg_ranker_keep(r);
        b->ranker = r;
        status = start(b, &scope.err);
        if (status == TG_OK) *builder = b;
        else tg_builder_close(b);
    }
    return tg_scope_end(&scope, status, message);
}

void tg_builder_close(tg_graph_builder *b) {
    if (b == NULL) return;
    outdate(b);
    rows *all[] = {&b->node, &b->opcode, &b->edge, &b->config_node, &b->config, &b->digits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
    free(b->place);
    free(b->graph);
    tg_ranker *r = b->ranker;
    free(b);
    tg_ranker_close(r);
}

void tg_builder_clear(tg_graph_builder *b) {
    if (b == NULL) return;
    outdate(b);
    rows *all[] = {&b->node, &b->opcode, &b->edge, &b->config_node, &b->config, &b->digits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->count = 0;
    b->configs = 0;
    fill_graph(b);
}

/* ---- nodes and edges ---- */

static tg_status add_node(tg_graph_builder *b, int32_t opcode, int configurable, tg_error *err) {
    const uint8_t code = (uint8_t)opcode;
    if (opcode < 0 || opcode > UINT8_MAX)
        return tg_fail_field(err, "opcode", "a number in 0..255", "%d", opcode);
    if (b->configs > 0)
        return tg_fail(err, TG_E_CONFIG, "nodes: expected all of them before the first config");
    const int64_t node = b->node.count, room = b->node.room;
    tg_status status = make_room(&b->node, err);
    if (status == TG_OK && b->node.room > room) {
        int32_t *place = realloc(b->place, (size_t)b->node.room * sizeof *place);
        if (place == NULL) {
            b->node.room = room; /* it grows next time */
            return tg_fail(err, TG_E_MEMORY, "no memory for %lld nodes", (long long)b->node.room);
        }
        b->place = place;
    }
    if (status == TG_OK) status = make_room(&b->config_node, err);
    if (status == TG_OK) status = append(&b->opcode, &code, err);
    if (status != TG_OK) return status;
    outdate(b);
    const int counts = configurable && columns(b, TG_DIGIT) > 0;
    b->place[node] = counts ? (int32_t)b->config_node.count : -1;
    if (counts) status = append(&b->config_node, &node, err);
    float *row = row_at(&b->node, node);
    for (int i = 0; i < columns(b, TG_NODE); i++) row[i] = tg_feature_fill(b->ranker, TG_NODE, i);
    b->node.count++;
    b->digits.size = (size_t)b->config_node.count * (size_t)columns(b, TG_DIGIT);
    b->digits.room = 0; /* rows have another size */
    return status;
}

static tg_status add_edge(tg_graph_builder *b, int64_t consumer, int64_t operand, tg_error *err) {
    const int64_t edge[2] = {consumer, operand};
    for (int i = 0; i < 2; i++)
        if (edge[i] < 0 || edge[i] >= b->node.count)
            return tg_fail_field(err, "edge", "nodes that were added", "%lld of %lld", (long long)edge[i],
                                 (long long)b->node.count);
    const tg_status status = append(&b->edge, edge, err);
    if (status == TG_OK) outdate(b);
    return status;
}

/* ---- configs ---- */

static tg_status add_config(tg_graph_builder *b, int64_t like, tg_error *err) {
    if (like < -1 || like >= b->configs)
        return tg_fail_field(err, "like", "a config, or -1", "%lld", (long long)like);
    if (b->node.count == 0) return tg_fail_field(err, "nodes", "at least one before configs", "none");
    tg_status status = make_room(&b->config, err);
    if (status == TG_OK) status = make_room(&b->digits, err);
    if (status != TG_OK) return status;
    float *config = row_at(&b->config, b->configs);
    int8_t *digits = row_at(&b->digits, b->configs);
    if (like >= 0) {
        memcpy(config, row_at(&b->config, like), b->config.size);
        memcpy(digits, row_at(&b->digits, like), b->digits.size);
    } else {
        for (int i = 0; i < columns(b, TG_CONFIG); i++) config[i] = tg_feature_fill(b->ranker, TG_CONFIG, i);
        memset(digits, TG_DIGIT_MIN, b->digits.size);
    }
    b->config.count = b->digits.count = ++b->configs;
    return TG_OK;
}

static tg_status remove_config(tg_graph_builder *b, int64_t config, tg_error *err) {
    if (config < 0 || config >= b->configs)
        return tg_fail_field(err, "config", "one that was added", "%lld of %lld", (long long)config,
                             (long long)b->configs);
    const int64_t last = --b->configs;
    memmove(row_at(&b->config, config), row_at(&b->config, last), b->config.size);
    memmove(row_at(&b->digits, config), row_at(&b->digits, last), b->digits.size);
    b->config.count = b->digits.count = last;
    return TG_OK;
}

static float *row_of(tg_graph_builder *b, tg_group group, int64_t row) {
    if (group == TG_NODE && row >= 0 && row < b->node.count) return row_at(&b->node, row);
    if (group == TG_GRAPH_WIDE && row == 0) return b->graph;
    if (group == TG_CONFIG && row >= 0 && row < b->configs) return row_at(&b->config, row);
    return NULL;
}

static tg_status set(tg_graph_builder *b, tg_group group, int64_t row, int32_t feature, double value,
                     tg_error *err) {
    float *to = row_of(b, group, row);
    if (to == NULL)
        return tg_fail_field(err, "row", "a node, config, or 0 for the graph, that was added", "%lld",
                             (long long)row);
    if (feature >= columns(b, group))
        return tg_fail_field(err, "feature", "an index of the ranker", "%d", feature);
    if (feature < 0) return TG_OK;
    to[feature] = (float)value;
    if (group != TG_CONFIG) outdate(b);
    return TG_OK;
}

static tg_status set_digit(tg_graph_builder *b, int64_t config, int64_t node, int32_t digit, int32_t value,
                           tg_error *err) {
    if (config < 0 || config >= b->configs || node < 0 || node >= b->node.count)
        return tg_fail_field(err, "digit", "a config and a node that were added", "config %lld, node %lld",
                             (long long)config, (long long)node);
    if (digit >= columns(b, TG_DIGIT) && columns(b, TG_DIGIT) > 0)
        return tg_fail_field(err, "digit", "an index of the ranker", "%d", digit);
    if (digit < 0 || columns(b, TG_DIGIT) == 0) return TG_OK;
    if (b->place[node] < 0)
        return tg_fail_field(err, "digit", "a configurable node", "node %lld", (long long)node);
    if (value < INT8_MIN || value > INT8_MAX)
        return tg_fail_field(err, "digit", "a value that the ranker knows", "%d", value);
    int8_t *digits = row_at(&b->digits, config);
    digits[(int64_t)b->place[node] * columns(b, TG_DIGIT) + digit] = (int8_t)value;
    return TG_OK;
}

/* ---- files ---- */

static tg_status fits(const tg_graph_builder *b, const tg_loaded *g, tg_error *err) {
    const struct {
        const char *field;
        int64_t found;
        tg_group group;
        int optional; /* the graph alone is wanted if the ranker has none */
    } sizes[] = {{"node_feat", g->F, TG_NODE, 0},
                 {"graph_feat", g->G, TG_GRAPH_WIDE, 0},
                 {"config_feat", g->config_feat == NULL ? -1 : g->T, TG_CONFIG, 1},
                 {"node_config_feat", g->digits == NULL ? -1 : g->D, TG_DIGIT, 1}};
    for (int i = 0; i < 4; i++) {
        const int wanted = columns(b, sizes[i].group);
        if (sizes[i].found == wanted || (sizes[i].optional && (sizes[i].found < 0 || wanted == 0))) continue;
        char expected[64];
        snprintf(expected, sizeof expected, "%d column%s, as the ranker has", wanted, TG_S(wanted));
        return tg_fail_field(err, sizes[i].field, expected, "%lld", (long long)sizes[i].found);
    }
    return TG_OK;
}

/* Nodes that can be configured, in the order of the file. */
static tg_status take_config_nodes(tg_graph_builder *b, const tg_loaded *g, tg_error *err) {
    const int digits = columns(b, TG_DIGIT);
    for (int64_t k = 0; k < g->K && digits > 0; k++) {
        const int64_t id = g->ids[k];
        if (id < 0 || id >= g->N || b->place[id] >= 0)
            return tg_fail_field(err, "node_config_ids", "different nodes of the graph", "%lld",
                                 (long long)id);
        const tg_status status = append(&b->config_node, &id, err);
        if (status != TG_OK) return status;
        b->place[id] = (int32_t)k;
    }
    b->digits.size = (size_t)b->config_node.count * (size_t)digits;
    b->digits.room = 0;
    return TG_OK;
}

static tg_status take_configs(tg_graph_builder *b, const tg_loaded *g, tg_error *err) {
    const int features = g->config_feat != NULL && columns(b, TG_CONFIG) > 0,
              digits = g->digits != NULL && columns(b, TG_DIGIT) > 0;
    tg_status status = TG_OK;
    for (int64_t c = 0; c < g->C && status == TG_OK && (features || digits); c++) {
        status = add_config(b, -1, err);
        if (status != TG_OK) break;
        if (features) memcpy(row_at(&b->config, c), g->config_feat + c * g->T, b->config.size);
        if (digits) memcpy(row_at(&b->digits, c), g->digits + c * g->K * g->D, b->digits.size);
    }
    return status;
}

static tg_status take_graph(tg_graph_builder *b, const tg_loaded *g, tg_error *err) {
    tg_status status = fits(b, g, err);
    for (int64_t n = 0; n < g->N && status == TG_OK; n++) {
        status = add_node(b, g->opcode == NULL ? 0 : g->opcode[n], 0, err);
        if (status == TG_OK && g->F > 0) memcpy(row_at(&b->node, n), g->node_feat + n * g->F, b->node.size);
    }
    for (int64_t e = 0; e < g->E && status == TG_OK; e++)
        status = add_edge(b, g->edges[2 * e], g->edges[2 * e + 1], err);
    if (status == TG_OK && g->G > 0) memcpy(b->graph, g->graph_feat, (size_t)g->G * sizeof *b->graph);
    if (status == TG_OK) status = take_config_nodes(b, g, err);
    return status == TG_OK ? take_configs(b, g, err) : status;
}

static tg_status read_bytes(tg_graph_builder *b, const void *bytes, size_t size, tg_error *err) {
    tg_loaded loaded = {0};
    tg_builder_clear(b);
    tg_status status = tg_load_graph(&loaded, bytes, size, err);
    if (status == TG_OK) status = take_graph(b, &loaded, err);
    tg_loaded_free(&loaded);
    if (status != TG_OK) tg_builder_clear(b);
    return status;
}

/* Of the file `path`, mapped. */
static tg_status read_path(tg_graph_builder *b, const char *path, tg_error *err) {
    tg_source source;
    tg_status status = tg_source_open(path, "a file of a graph", &source, NULL, err);
    if (status == TG_OK && source.size > 0) status = tg_source_map(&source, err);
    if (status == TG_OK) status = read_bytes(b, source.bytes, (size_t)source.size, err);
    tg_source_close(&source);
    if (status == TG_OK) return TG_OK;
    const tg_error inner = *err;
    snprintf(err->message, sizeof err->message, "%.200s: %.380s%s%.60s", path, inner.message,
             inner.sys_errno != 0 ? ": " : "", inner.sys_errno != 0 ? strerror(inner.sys_errno) : "");
    tg_error_printable(err);
    return status;
}

/* ---- scores ---- */

static void as_arrays(const tg_graph_builder *b, tg_graph_arrays *g, tg_config_arrays *c) {
    *g = (tg_graph_arrays){.size = sizeof *g, .nodes = b->node.count, .edges = b->edge.count};
    g->node_columns = columns(b, TG_NODE);
    g->config_nodes = b->config_node.count;
    g->graph_columns = columns(b, TG_GRAPH_WIDE);
    g->node_feat = (const float *)(const void *)b->node.data;
    g->node_opcode = (const uint8_t *)b->opcode.data;
    g->edge_index = (const int64_t *)(const void *)b->edge.data;
    g->node_config_ids = (const int64_t *)(const void *)b->config_node.data;
    g->graph_feat = g->graph_columns > 0 ? b->graph : NULL;
    *c = (tg_config_arrays){.size = sizeof *c, .count = b->configs, .columns = columns(b, TG_CONFIG)};
    c->features = c->columns > 0 ? (const float *)(const void *)b->config.data : NULL;
    if (b->config_node.count == 0) return;
    c->feature_columns = c->columns;
    c->digits = (const int8_t *)b->digits.data;
    c->columns = columns(b, TG_DIGIT);
}

tg_status tg_builder_score(tg_graph_builder *b, float *scores, tg_message *message) {
    tg_graph_arrays g;
    tg_config_arrays c;
    if (b == NULL) return tg_argument(message, "builder", "an open builder");
    if (b->configs == 0) return TG_OK;
    as_arrays(b, &g, &c);
    if (b->session == NULL || b->most < b->configs) {
        const int64_t most = b->configs > b->config.room / 2 ? b->config.room : b->configs;
        outdate(b);
        const tg_status status = tg_session_open(b->ranker, &g, most, &b->session, message);
        if (status != TG_OK) return status;
        b->most = most;
    }
    return tg_session_score(b->session, &c, scores, message);
}

tg_status tg_builder_arrays(const tg_graph_builder *b, tg_graph_arrays *graph, tg_config_arrays *configs,
                            tg_message *message) {
    tg_graph_arrays g;
    tg_config_arrays c;
    if (b == NULL) return tg_argument(message, "builder", "an open builder");
    if (graph == NULL || graph->size < sizeof g)
        return tg_argument(message, "graph", "a struct with its size");
    if (configs == NULL || configs->size < sizeof c)
        return tg_argument(message, "configs", "a struct with its size");
    const uint32_t sizes[] = {graph->size, configs->size};
    as_arrays(b, &g, &c);
    memcpy(graph, &g, sizeof g);
    memcpy(configs, &c, sizeof c);
    graph->size = sizes[0], configs->size = sizes[1];
    return TG_OK;
}

/* ---- public ---- */

int64_t tg_builder_count(const tg_graph_builder *b) { return b == NULL ? 0 : b->configs; }

float *tg_builder_row(tg_graph_builder *b, tg_group group, int64_t row) {
    if (b == NULL) return NULL;
    if (group != TG_CONFIG) outdate(b);
    return columns(b, group) == 0 ? NULL : row_of(b, group, row);
}

/* The body of a function that changes `b`. */
#define CHANGE(call)                                                                                         \
    tg_scope scope;                                                                                          \
    if (b == NULL) return tg_argument(message, "builder", "an open builder");                                \
    tg_scope_begin(&scope, &b->ranker->heap, &b->ranker->spread, 1);                                         \
    const tg_status status = tg_scope_end(&scope, call, message)

tg_status tg_builder_node(tg_graph_builder *b, int32_t opcode, int configurable, int64_t *node,
                          tg_message *message) {
    CHANGE(add_node(b, opcode, configurable, &scope.err));
    if (node != NULL) *node = status == TG_OK ? b->node.count - 1 : -1;
    return status;
}

tg_status tg_builder_read(tg_graph_builder *b, const char *path, tg_message *message) {
    if (path == NULL) return tg_argument(message, "path", "the path of a graph");
    CHANGE(read_path(b, path, &scope.err));
    return status;
}

tg_status tg_builder_read_memory(tg_graph_builder *b, const void *bytes, size_t size, tg_message *message) {
    if (bytes == NULL || size > INT64_MAX) return tg_argument(message, "bytes", "those of a graph");
    CHANGE(read_bytes(b, bytes, size, &scope.err));
    return status;
}

tg_status tg_builder_edge(tg_graph_builder *b, int64_t consumer, int64_t operand, tg_message *message) {
    CHANGE(add_edge(b, consumer, operand, &scope.err));
    return status;
}

tg_status tg_builder_config(tg_graph_builder *b, int64_t like, int64_t *config, tg_message *message) {
    CHANGE(add_config(b, like, &scope.err));
    if (config != NULL) *config = status == TG_OK ? b->configs - 1 : -1;
    return status;
}

tg_status tg_builder_remove(tg_graph_builder *b, int64_t config, tg_message *message) {
    CHANGE(remove_config(b, config, &scope.err));
    return status;
}

tg_status tg_builder_set(tg_graph_builder *b, tg_group group, int64_t row, int32_t feature, double value,
                         tg_message *message) {
    CHANGE(set(b, group, row, feature, value, &scope.err));
    return status;
}

tg_status tg_builder_digit(tg_graph_builder *b, int64_t config, int64_t node, int32_t digit, int32_t value,
                           tg_message *message) {
    CHANGE(set_digit(b, config, node, digit, value, &scope.err));
    return status;
}
