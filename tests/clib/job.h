/* A graph with configs as test_clib_score.py writes them: nine int64 sizes, then the arrays. */
#ifndef TG_JOB_H
#define TG_JOB_H

#include <stdio.h>
#include <stdlib.h>

#include <tpugraphs.h>

typedef struct job {
    char *bytes; /* of the graph's file */
    tg_graph_arrays graph;
    tg_config_arrays configs;
} job;

static inline int failed(const char *message) {
    fprintf(stderr, "%s\n", message);
    return 1;
}

static inline char *read_all(const char *path) {
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (size > 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)size);
    if (bytes != NULL && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    if (file != NULL) fclose(file);
    return bytes;
}

/* The next array, or NULL if it is empty. */
static inline const void *take(const char **at, int64_t count, size_t size) {
    const char *array = *at;
    *at += (size_t)count * size;
    return count > 0 ? array : NULL;
}

static inline int read_job(const char *path, job *j) {
    if ((j->bytes = read_all(path)) == NULL) return 0;
    const int64_t *n = (const int64_t *)(const void *)j->bytes;
    const char *at = j->bytes + 9 * sizeof *n;
    j->graph = (tg_graph_arrays){.size = sizeof j->graph,
                                 .nodes = n[0],
                                 .node_columns = n[1],
                                 .edges = n[2],
                                 .config_nodes = n[3],
                                 .graph_columns = n[4]};
    j->configs = (tg_config_arrays){
        .size = sizeof j->configs, .count = n[5], .columns = n[6], .feature_columns = n[8]};
    const int64_t cells = n[3] > 0 ? n[5] * n[6] * n[3] : 0, columns = n[3] > 0 ? n[8] : n[6];
    j->graph.edge_index = take(&at, 2 * n[2], sizeof(int64_t));
    j->graph.node_config_ids = take(&at, n[3], sizeof(int64_t));
    j->graph.node_feat = take(&at, n[0] * n[1], sizeof(float));
    j->graph.graph_feat = take(&at, n[4], sizeof(float));
    j->configs.features = take(&at, n[5] * columns, sizeof(float));
    j->configs.digits = take(&at, cells, 1);
    j->graph.node_opcode = take(&at, n[7] * n[0], 1);
    return 1;
}

#endif
