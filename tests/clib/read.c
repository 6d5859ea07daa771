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

static tg_status score(tg_graph_builder *builder, const char *path, const char *to, tg_message *message) {
    tg_status status =
        size_of(path) < 0 ? tg_builder_read(builder, path, message) : read_both(builder, path, message);
    const size_t n = (size_t)tg_builder_count(builder);
    float *scores = malloc((n + 1) * sizeof *scores);
    if (status == TG_OK) status = tg_builder_score(builder, scores, message);
    FILE *file = status == TG_OK ? fopen(to, "wb") : NULL;
    if (file != NULL && fwrite(scores, sizeof *scores, n, file) != n) status = TG_E_IO;
    if (file != NULL) fclose(file);
    free(scores);
    return status;
}

int main(int argc, char **argv) {
    tg_ranker *ranker;
    tg_graph_builder *builder = NULL;
    tg_message message = TG_MESSAGE;
    if (argc != 4) return failed("usage: read RANKER GRAPH SCORES");
    tg_status status = tg_ranker_open(argv[1], NULL, &ranker, &message);
    if (status == TG_OK) status = tg_builder_open(ranker, &builder, &message);
    if (status == TG_OK) status = score(builder, argv[2], argv[3], &message);
    tg_builder_close(builder);
    tg_ranker_close(ranker);
    return status == TG_OK ? 0 : failed(message.text);
}
