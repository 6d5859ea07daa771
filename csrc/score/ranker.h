/* Rankers without Python: open a file that Ranker.save wrote, and score configs of graphs. This header
   includes only the status codes, so that a compiler or a tuner can embed it.

       tg_ranker *ranker;
       tg_error err;
       if (tg_ranker_open("ranker.tgr", &ranker, &err) != TG_OK) return report(err.message);
       if (tg_ranker_score(ranker, &graph, &configs, scores, &err) != TG_OK) report(err.message);
       tg_ranker_close(ranker);

   Scores are the bits that Ranker.predict gives on the same machine, for any number of threads. An error's message is
   one line, and names file or field. Several threads may score with one ranker at once. */
#ifndef TG_RANKER_H
#define TG_RANKER_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_ranker tg_ranker;

/* A graph as it is stored: borrowed arrays, row-major. */
typedef struct tg_ranker_graph {
    int64_t nodes, node_columns, edges, config_nodes, graph_columns;
    const float *node_feat;         /* (nodes, node_columns) */
    const uint8_t *node_opcode;     /* (nodes), or NULL */
    const int64_t *edge_index;      /* (edges, 2): nodes that each edge joins */
    const int64_t *node_config_ids; /* (config_nodes): nodes that can be configured */
    const float *graph_feat;        /* (graph_columns), or NULL without */
} tg_ranker_graph;

/* Configs of a graph: digits of its configurable nodes, features of whole configs, or both. Absent arrays are
   NULL. */
typedef struct tg_ranker_configs {
    int64_t count, columns;
    const int8_t *digits;    /* (count, config_nodes, columns), layout: 18 columns of -1..5 */
    const float *features;   /* (count, columns), tile: 24 columns; with digits (count, feature_columns) */
    int64_t feature_columns; /* if there are digits, too */
} tg_ranker_configs;

/* Open the ranker file `path`. `*ranker` is NULL after an error: TG_E_IO, TG_E_MEMORY, or TG_E_CHECKPOINT for
   a file that is damaged, of another kind or version, or of a ranker other than a network or the trees of
   "eighth-lightgbm" and "eleventh-lightgbm". */
tg_status tg_ranker_open(const char *path, tg_ranker **ranker, tg_error *err);

/* scores (configs->count): smaller = predicted faster; sums over the segments for a ranker that cuts graphs.
   Every index and number that the ranker reads is checked. With attention across configs, or trees that
   compare configs, a score depends on the other configs of the call, as in Ranker.predict. */
tg_status tg_ranker_score(tg_ranker *ranker, const tg_ranker_graph *graph, const tg_ranker_configs *configs,
                          float *scores, tg_error *err);

void tg_ranker_close(tg_ranker *ranker); /* NULL is fine */

#endif
