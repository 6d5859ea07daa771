/* libFuzzer target of opening rankers by the public functions: any bytes as a file. One that is accepted also scores a small
   graph, in which every feature is what stands for a missing one. Errors say something, in one line. */
#include <stdlib.h>
#include <string.h>

#include <tpugraphs.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NODES = 3, CONFIGS = 4 };

static void check(tg_status status, tg_message *message) {
    if (status == TG_OK) return;
    if (message->status != status || message->text[0] == 0 || strchr(message->text, '\n') != NULL) abort();
    message->text[0] = 0;
}

static void score(tg_ranker *ranker) {
    tg_message message = TG_MESSAGE;
    tg_graph_builder *builder;
    float scores[CONFIGS];
    tg_status status = tg_builder_open(ranker, &builder, &message);
    for (int i = 0; i < NODES && status == TG_OK; i++)
        status = tg_builder_node(builder, i, i != 1, NULL, &message);
    for (int i = 1; i < NODES && status == TG_OK; i++) status = tg_builder_edge(builder, i, 0, &message);
    for (int i = 0; i < CONFIGS && status == TG_OK; i++)
        status = tg_builder_config(builder, -1, NULL, &message);
    if (status == TG_OK) status = tg_builder_digit(builder, 1, 0, 0, 1, &message);
    if (status == TG_OK) status = tg_builder_score(builder, scores, &message);
    for (int i = 0; i < CONFIGS && status == TG_OK; i++)
        if (!(scores[i] - scores[i] == 0)) abort(); /* not finite */
    check(status, &message);
    tg_builder_close(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_ranker *ranker;
    tg_message message = TG_MESSAGE;
    const tg_status status = tg_ranker_open_memory(data, size, NULL, &ranker, &message);
    check(status, &message);
    if ((status == TG_OK) != (ranker != NULL)) abort();
    if (status == TG_OK) score(ranker);
    tg_ranker_close(ranker);
    return 0;
}
