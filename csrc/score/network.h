/* The model of a ranker file with its weights, and scores of a prepared graph. */
#ifndef TG_NETWORK_H
#define TG_NETWORK_H

#include "io/safetensors.h"
#include "base/jsontree.h"

struct tg_cancel;
struct tg_graph;
struct tg_model;
struct tg_workspace;

/* Columns of prepared graphs; a configurable node has `digits` of them, looked up in tables of `digit_rows`. */
typedef struct tg_network_sizes {
    int node, config, graph, digits, digit_rows;
} tg_network_sizes;

/* The model of the steps that `list` describes, with weights from the tensors of `file`. All are checked to
   exist with the right shape before memory is allocated for any. `*model` is NULL after an error. */
tg_status tg_network_read(struct tg_model **model, const tg_json_value *list, const tg_network_sizes *sizes,
                          const tg_safetensors *file, tg_error *err);

void tg_network_free(struct tg_model *model); /* NULL is fine */

/* The tensor of this name, type and shape (rows, cols), or (rows,) when cols is 0; NULL with err. */
const tg_tensor *tg_network_tensor(const tg_safetensors *file, const char *name, tg_dtype dtype, int64_t rows,
                                   int64_t cols, tg_error *err);
/* The same with its values in *to, new memory, to be freed also after an error; numbers are finite. */
tg_status tg_take_tensor(const tg_safetensors *file, const char *name, tg_dtype dtype, int64_t rows,
                         int64_t cols, void **to, tg_error *err);

/* Configs per pass: the fastest number up to `most` (>= 1); `most` itself if the model looks across configs,
   or does all its work on nodes once per pass. */
int64_t tg_network_chunk(const struct tg_model *model, int64_t most, int64_t nodes);

/* How configs are scored. */
typedef struct tg_scoring {
    int64_t most;                                /* configs of a pass, at most */
    int precision;                               /* a tg_precision */
    struct tg_workspace *workspace;              /* where passes run, or NULL */
    struct tg_cancel *cancel;                    /* polled within passes, or NULL */
    int (*done)(void *context, int64_t configs); /* called after every pass, or NULL; not 0: stop */
    void *context;
} tg_scoring;

/* scores (n) of rows (n) of prepared graphs with the same configs, summed over the graphs in order: the
   segments of one graph, or a single whole one. rows NULL: the first n. Runs in chunks of nearly equal size,
   at most tg_network_chunk of the first graph. A score that is not finite is a TG_E_NOT_FINITE. */
tg_status tg_network_scores(const struct tg_model *model, const struct tg_graph *const *graphs, int n_graphs,
                            const int64_t *rows, int64_t n, const tg_scoring *how, float *scores,
                            tg_error *err);

#endif
