/* The trees of a ranker file of the recipes "eighth-lightgbm" and "eleventh-lightgbm", and scores of configs. */
#ifndef TG_TREERANKER_H
#define TG_TREERANKER_H

#include "base/jsontree.h"
#include "io/safetensors.h"
#include "trees/layouttable.h"
#include "trees/table.h"

typedef struct tg_treeranker tg_treeranker;

/* The trees in the metadata `root`, with the tensors of `file`. `*trees` is NULL after an error. */
tg_status tg_treeranker_read(tg_treeranker **trees, const tg_json_value *root, const tg_safetensors *file,
                             tg_error *err);
void tg_treeranker_free(tg_treeranker *trees); /* NULL is fine */

/* scores(n) of the n configs of a graph. The caller has checked sizes and arrays: each array with a size
   exists. */
tg_status tg_treeranker_scores(const tg_treeranker *trees, const tg_layout_graph *graph,
                               const tg_config_rows *configs, int64_t n, float *scores, tg_error *err);

#endif
