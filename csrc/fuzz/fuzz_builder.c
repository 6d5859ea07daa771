/* libFuzzer target of graphs by the public functions: the bytes are calls of a builder, a session and of arrays as they stand,
   with any arguments, of a good ranker: the file fuzz_ranker.tgr in the working folder. Refused calls say why, in one line,
   and scores are finite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tpugraphs.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64 }; /* configs and nodes */

typedef struct input {
    const uint8_t *at, *end;
} input;

static void take(input *in, void *to, size_t size) {
    const size_t left = (size_t)(in->end - in->at), n = left < size ? left : size;
    memset(to, 0, size);
    memcpy(to, in->at, n);
    in->at += n;
}

/* Small numbers mostly, sometimes any. */
static int64_t number(input *in) {
    int8_t small;
    int64_t any;
    take(in, &small, 1);
    if (small != INT8_MAX) return small;
    take(in, &any, sizeof any);
    return any;
}

static double value(input *in) {
    double any;
    const int64_t small = number(in);
    if (small != INT8_MIN) return (double)small;
    take(in, &any, sizeof any);
    return any;
}

static void check(tg_status status, tg_message *message) {
    if (status == TG_OK) return;
    if (message->status != status || message->text[0] == 0 || strchr(message->text, '\n') != NULL) abort();
    message->text[0] = 0;
}

static void check_scores(tg_status status, const float *scores, int64_t n) {
    for (int64_t i = 0; i < n && status == TG_OK; i++)
        if (!isfinite(scores[i])) abort();
}

/* Arrays with sizes that may not be theirs: never more than there is. */
static void score_arrays(tg_ranker *ranker, tg_graph_builder *builder, input *in) {
    tg_message message = TG_MESSAGE;
    tg_graph_arrays g = {.size = sizeof g};
    tg_config_arrays c = {.size = sizeof c};
    float scores[MOST];
    if (tg_builder_arrays(builder, &g, &c, &message) != TG_OK) abort();
    int64_t *const sizes[] = {&g.nodes,         &g.node_columns, &g.edges,   &g.config_nodes,
                              &g.graph_columns, &c.count,        &c.columns, &c.feature_columns};
    const int64_t chosen = number(in), other = number(in);
    if (chosen >= 0 && chosen < 8 && other <= *sizes[chosen]) *sizes[chosen] = other;
    if (chosen == 8) g.node_opcode = NULL;
    if (chosen == 9) c.features = NULL;
    if (chosen == 10) c.digits = NULL;
    if (chosen == 11) g.size = (uint32_t)other;
    const tg_status status = tg_ranker_score(ranker, &g, &c, scores, &message);
    check(status, &message);
    check_scores(status, scores, c.count);
}

static void call(tg_ranker *ranker, tg_graph_builder *builder, input *in, int *nodes) {
    tg_message message = TG_MESSAGE;
    float scores[MOST];
    const int64_t what = number(in) & 15;
    tg_status status = TG_OK;
    if (what < 3 && *nodes < MOST) {
        status = tg_builder_node(builder, (int32_t)number(in), (int)number(in), NULL, &message);
        *nodes += status == TG_OK;
    } else if (what < 5) status = tg_builder_edge(builder, number(in), number(in), &message);
    else if (what < 7 && tg_builder_count(builder) < MOST)
        status = tg_builder_config(builder, number(in), NULL, &message);
    else if (what == 7) status = tg_builder_remove(builder, number(in), &message);
    else if (what < 11)
        status = tg_builder_set(builder, (tg_group)number(in), number(in), (int32_t)number(in), value(in),
                                &message);
    else if (what == 11)
        status = tg_builder_digit(builder, number(in), number(in), (int32_t)number(in), (int32_t)number(in),
                                  &message);
    else if (what == 12) score_arrays(ranker, builder, in);
    else if (what == 13 && number(in) == 0) tg_builder_clear(builder), *nodes = 0;
    else if (what >= 14) {
        status = tg_builder_score(builder, scores, &message);
        check_scores(status, scores, tg_builder_count(builder));
    }
    check(status, &message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tg_ranker *ranker; /* opened once */
    tg_message message = TG_MESSAGE;
    tg_graph_builder *builder;
    input in = {data, data + size};
    int nodes = 0;
    if (ranker == NULL && tg_ranker_open("fuzz_ranker.tgr", NULL, &ranker, &message) != TG_OK) abort();
    if (tg_builder_open(ranker, &builder, &message) != TG_OK) abort();
    while (in.at < in.end) call(ranker, builder, &in, &nodes);
    tg_builder_close(builder);
    return 0;
}
