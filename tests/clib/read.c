/* Score the graph of a file: read RANKER GRAPH SCORES, where GRAPH is an .npz, a pack or HLO. Read twice, from the file and
   from memory that is not aligned. An error is one line and exit code 1. */
#include <string.h>

#include "job.h"

static long size_of(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (file != NULL) fclose(file);
    return size;
}

static tg_status read_both(tg_graph_builder *builder, const char *path, tg_message *message) {
    tg_status status = tg_builder_read(builder, path, message);
    const long size = size_of(path);
    char *content = read_all(path), *moved = malloc((size_t)size + 1);
    memcpy(moved + 1, content, (size_t)size);
    if (status == TG_OK) status = tg_builder_read_memory(builder, moved + 1, (size_t)size, message);
    free(content);
    free(moved);
    return status;
}

int main(int argc, char **argv) {
    tg_ranker *ranker;
    tg_graph_builder *builder;
    tg_message message = TG_MESSAGE;
    if (argc != 4) return failed("usage: read RANKER GRAPH SCORES");
    if (tg_ranker_open(argv[1], NULL, &ranker, &message) != TG_OK) return failed(message.text);
    if (tg_builder_open(ranker, &builder, &message) != TG_OK) return failed(message.text);
    if (size_of(argv[2]) < 0 ? tg_builder_read(builder, argv[2], &message) != TG_OK
                             : read_both(builder, argv[2], &message) != TG_OK)
        return failed(message.text);
    const size_t n = (size_t)tg_builder_count(builder);
    float *scores = malloc((n + 1) * sizeof *scores);
    if (tg_builder_score(builder, scores, &message) != TG_OK) return failed(message.text);
    FILE *file = fopen(argv[3], "wb");
    if (file == NULL || fwrite(scores, sizeof *scores, n, file) != n) return failed("cannot write");
    fclose(file);
    free(scores);
    tg_builder_close(builder);
    tg_ranker_close(ranker);
    return 0;
}
