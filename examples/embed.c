/* A ranker in a program of your own: embed RANKER. Builds a graph of five operations, scores 1,000 configs of it, and
   prints the five of least score with their scores. A feature that the ranker does not know is ignored, and what it
   misses is filled with its mean in training. */
#include <stdio.h>
#include <stdlib.h>

#include <tpugraphs.h>

enum { NODES = 5, CONFIGS = 1000, BEST = 5 };

/* Names are looked up once. */
typedef struct names {
    int32_t size, where, device, batch, block, unroll, vector, order, tiled, newer;
} names;

static names look_up(const tg_ranker *ranker) {
    names n;
    n.size = tg_feature_index(ranker, TG_NODE, "size");
    n.where = tg_feature_index(ranker, TG_NODE, "where");
    n.device = tg_feature_value(ranker, TG_NODE, n.where, "device");
    n.batch = tg_feature_index(ranker, TG_GRAPH_WIDE, "batch");
    n.block = tg_feature_index(ranker, TG_CONFIG, "block");
    n.unroll = tg_feature_index(ranker, TG_CONFIG, "unroll");
    n.vector = tg_feature_index(ranker, TG_CONFIG, "vector");
    n.order = tg_feature_index(ranker, TG_CONFIG, "order");
    n.tiled = tg_feature_value(ranker, TG_CONFIG, n.order, "tiled");
    n.newer = tg_feature_index(ranker, TG_CONFIG, "an option that came later"); /* -1 */
    return n;
}

/* A chain of operations: every one reads the one before. */
static tg_status add_graph(tg_graph_builder *builder, const names *n, tg_message *message) {
    tg_status status = tg_builder_set(builder, TG_GRAPH_WIDE, 0, n->batch, 32, message);
    for (int i = 0; i < NODES && status == TG_OK; i++) {
        int64_t node;
        status = tg_builder_node(builder, i % 3, 0, &node, message);
        if (status == TG_OK) status = tg_builder_set(builder, TG_NODE, node, n->size, 1 << (2 * i), message);
        if (status == TG_OK) status = tg_builder_set(builder, TG_NODE, node, n->where, n->device, message);
        if (status == TG_OK && i > 0) status = tg_builder_edge(builder, node, node - 1, message);
    }
    return status;
}

static tg_status add_configs(tg_graph_builder *builder, const names *n, tg_message *message) {
    tg_status status = TG_OK;
    for (int i = 0; i < CONFIGS && status == TG_OK; i++) {
        int64_t config;
        status = tg_builder_config(builder, -1, &config, message);
        if (status == TG_OK)
            status = tg_builder_set(builder, TG_CONFIG, config, n->block, 1 << i % 9, message);
        if (status == TG_OK)
            status = tg_builder_set(builder, TG_CONFIG, config, n->unroll, 1 + i % 8, message);
        if (status == TG_OK) status = tg_builder_set(builder, TG_CONFIG, config, n->vector, i % 2, message);
        if (status == TG_OK) status = tg_builder_set(builder, TG_CONFIG, config, n->newer, 7, message);
        if (status == TG_OK && i % 3 == 0)
            status = tg_builder_set(builder, TG_CONFIG, config, n->order, n->tiled, message);
    }
    return status;
}

static tg_status run(tg_ranker *ranker, tg_message *message) {
    static float scores[CONFIGS];
    int64_t best[BEST];
    const names n = look_up(ranker);
    tg_graph_builder *builder;
    tg_status status = tg_builder_open(ranker, &builder, message);
    if (status == TG_OK) status = add_graph(builder, &n, message);
    if (status == TG_OK) status = add_configs(builder, &n, message);
    if (status == TG_OK) status = tg_builder_score(builder, scores, message);
    if (status == TG_OK) status = tg_best(scores, CONFIGS, BEST, best, message);
    for (int i = 0; i < BEST && status == TG_OK; i++)
        printf("%d %a\n", (int)best[i], (double)scores[best[i]]);
    tg_builder_close(builder);
    return status;
}

int main(int argc, char **argv) {
    tg_ranker *ranker;
    tg_message message = TG_MESSAGE;
    if (argc != 2) {
        fprintf(stderr, "usage: embed RANKER\n");
        return EXIT_FAILURE;
    }
    tg_status status = tg_ranker_open(argv[1], NULL, &ranker, &message);
    if (status == TG_OK) status = run(ranker, &message);
    if (status != TG_OK) fprintf(stderr, "%s\n", message.text);
    tg_ranker_close(ranker);
    return status == TG_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
