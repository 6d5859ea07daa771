/* A model without Python: the steps of test_clib.py, weights from seed 7, one small graph. Prints the score of each
   config as a hexadecimal number; an error is one line and exit code 1. */
#include <stdio.h>
#include <string.h>

#include "model/run.h"

enum { NODES = 5, COLUMNS = 4, CONFIG_NODES = 2, CONFIGS = 3, CELLS = CONFIGS * CONFIG_NODES * TG_DIGITS };

static const char steps[] =
    "[{\"op\": \"config_linear\", \"name\": \"config\", \"in\": [\"node_feat\"], \"out\": \"c\", \"attrs\": "
    "{\"out\": 6}},"
    " {\"op\": \"sage\", \"name\": \"sage\", \"in\": [\"c\"], \"out\": \"s\", \"attrs\": {\"out\": 6}},"
    " {\"op\": \"pool\", \"name\": \"pool\", \"in\": [\"s\"], \"out\": \"y\"},"
    " {\"op\": \"linear\", \"name\": \"out\", \"in\": [\"y\"], \"out\": \"scores\", \"attrs\": {\"out\": "
    "1}}]";

static tg_status build(tg_model *model, tg_error *err) {
    tg_json_tree tree;
    tg_status status = tg_json_read(&tree, "steps", steps, strlen(steps), err);
    if (status == TG_OK) status = tg_model_read(model, NULL, tree.root, NULL, err);
    tg_json_free(&tree);
    return status == TG_OK ? tg_model_draw(model, 7, err) : status;
}

static tg_status score(const tg_model *model, float *scores, tg_error *err) {
    float features[NODES * COLUMNS];
    int8_t digits[CELLS];
    int64_t edges[2 * (NODES - 1)];
    const int64_t config_nodes[CONFIG_NODES] = {1, 3}, rows[CONFIGS] = {0, 1, 2};
    for (int i = 0; i < NODES * COLUMNS; i++) features[i] = (float)i / 8 - 1;
    for (int i = 0; i < CELLS; i++) digits[i] = (int8_t)(i % 7 - 1);
    for (int i = 0; i < NODES - 1; i++) edges[2 * i] = i, edges[2 * i + 1] = i + 1;
    tg_graph graph = {.N = NODES, .E = NODES - 1, .K = CONFIG_NODES, .F = COLUMNS, .C = CONFIGS};
    graph.has_configs = 1, graph.D = TG_DIGITS, graph.digit_rows = TG_DIGIT_STATES;
    graph.node_feat = features, graph.digits = digits;
    const tg_entry entry = {&graph, rows, CONFIGS};
    tg_pass pass = {.n_entries = 1, .entries = &entry, .scores = scores, .parts = 1};
    tg_workspace workspace = {0};
    tg_status status = tg_graph_init(&graph, edges, config_nodes, err);
    if (status == TG_OK) status = tg_model_run(model, &workspace, &pass, err);
    tg_workspace_free(&workspace);
    tg_graph_free(&graph);
    return status;
}

int main(void) {
    const tg_model_sizes sizes = {
        .node_features = COLUMNS, .digit_cols = TG_DIGITS, .digit_rows = TG_DIGIT_STATES};
    tg_error err = {0};
    float scores[CONFIGS];
    tg_model *model = tg_model_new(&sizes);
    tg_status status = model == NULL ? tg_fail(&err, TG_E_MEMORY, "no memory") : build(model, &err);
    if (status == TG_OK) status = score(model, scores, &err);
    if (model != NULL) tg_model_free(model);
    if (status != TG_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < CONFIGS; i++) printf("%a\n", (double)scores[i]);
    return 0;
}
