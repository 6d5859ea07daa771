/* What the files of the C library share: a ranker, how a public function begins and ends, and graphs as given. Outside
   it is include/tpugraphs.h. */
#ifndef TG_CLIB_H
#define TG_CLIB_H

#include <tpugraphs.h>

#include "base/parallel.h"
#include "clib/memory.h"
#include "model/graph.h"
#include "prepare/program.h"
#include "score/network.h"
#include "score/process.h"
#include "score/tasks.h"
#include "score/treeranker.h"

/* What the file keeps of a column in training. */
typedef struct tg_learnt {
    int known, log;         /* log: of ln(1 + x) */
    double mean, deviation; /* 0: it was constant */
    const int64_t *seen;    /* of a category (values): how often each, or NULL */
} tg_learnt;

struct tg_ranker {
    tg_heap heap;
    _Atomic int references; /* of the caller, and of what was made from it */
    _Atomic int threads;
    tg_spread spread; /* its threads are those at the start */
    tg_program program;
    struct tg_model *model;
    tg_treeranker *trees; /* in place of program and model, or NULL */
    tg_process *process;  /* in place of the model, or NULL */
    tg_tasks *tasks;      /* in place of the model, or NULL */
    tg_ranker *base;      /* its scores are the last column of the process, or NULL */
    int64_t seed;         /* of its choices */
    int described;        /* numbers that describe a program, of tasks */
    int precision, digits, digit_rows;
    int own_digits; /* they are those of a schema: values are in -1..digit_values[column]-1 */
    int8_t digit_values[TG_MOST_DIGITS];
    char *digit_names[TG_MOST_DIGITS]; /* or NULL */
    int64_t chunk;
    int tile;                      /* of published tile graphs: no digits */
    tg_columns columns[TG_TABLES]; /* names of the features of graphs */
    float *fill[TG_TABLES];        /* (columns[t].n): what stands for a missing one */
    tg_learnt *learnt[TG_TABLES];  /* (columns[t].n) */
};

/* The calling thread within a public function: whose memory it takes, how its work is spread. */
typedef struct tg_scope {
    tg_spread spread;
    const tg_heap *heap_before;
    const tg_spread *spread_before;
    tg_error err;
} tg_scope;

void tg_scope_begin(tg_scope *scope, const tg_heap *heap, const tg_spread *spread, int threads);
/* Ends it; an error goes to the message. Returns the status. */
tg_status tg_scope_end(tg_scope *scope, tg_status status, tg_message *message);

/* A TG_E_DATA about an argument, outside of any scope. */
tg_status tg_argument(tg_message *message, const char *name, const char *expected);

tg_status tg_no_memory(tg_message *message);

/* The caller's struct, which begins with its size, as the newest: fields that it does not have are 0. `least`: its bytes in
   the first version that had it, which stay when fields are appended. Returns 0 if the size cannot be one. */
int tg_take_struct(void *to, size_t size, const void *from, size_t least);

/* Make the ranker of a file with the metadata `root`. */
tg_status tg_ranker_make(tg_ranker *ranker, const tg_safetensors *file, const tg_json_value *root,
                         tg_error *err);
/* An error about the file, or what was given as one: whatever it was called inside, this is not a ranker. */
tg_status tg_in_file(const char *path, tg_status status, tg_error *err);
tg_status tg_ranker_new(const tg_options *options, tg_ranker **ranker, tg_message *message);
void tg_ranker_keep(tg_ranker *ranker); /* one tg_ranker_close more */

/* Names of features, by the schema of the file or, if it is NULL, as published; and what stands for missing ones. */
tg_status tg_take_names(tg_ranker *ranker, const tg_json_value *schema, tg_error *err);
tg_status tg_take_fill(tg_ranker *ranker, tg_error *err);

/* Sizes and arrays that graphs can have; indices are checked where they are used. */
tg_status tg_take_graph(const tg_graph_arrays *graph, tg_stored *to, tg_error *err);
/* The number of configs, and room for their scores. */
tg_status tg_take_count(const tg_config_arrays *configs, int64_t config_nodes, const void *scores,
                        tg_error *err);
/* Features go into the graph as it is stored, digits into the one that is prepared. */
tg_status tg_take_configs(const tg_ranker *ranker, const tg_config_arrays *configs, tg_stored *stored,
                          tg_graph *graph, tg_error *err);

/* graphs (n): the segments of a prepared graph, in one block to be freed by tg_cuts_free, or NULL for the graph itself. */
tg_status tg_cuts_make(const tg_ranker *ranker, const tg_graph *graph, tg_graph **cuts, int *n,
                       tg_error *err);
void tg_cuts_free(tg_graph *cuts, int n);

/* scores (count) by the ranker's trees, which read a graph as it is stored, or by its process, which reads configs. */
tg_status tg_score_stored(tg_ranker *ranker, const tg_stored *stored, const tg_config_arrays *configs,
                          float *scores, tg_error *err);

/* best (k), k <= count: configs to measure together, by the ranker's process. */
tg_status tg_choose_together(tg_ranker *ranker, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                             int64_t k, int64_t *best, tg_error *err);

#endif
