/* Pruning: which nodes and edges of a graph a ranker needs, given the nodes that can be configured.
   Every method keeps all configurable nodes, in their order, and renumbers. The result is a graph of nodes of
   the old one and of new ones, which have no old id. */
#ifndef TG_PRUNE_H
#define TG_PRUNE_H

#include <stdint.h>

#include "base/status.h"

/* What is left of a graph. Freed by tg_pruned_free. */
typedef struct tg_pruned {
    int64_t N, E, K;
    int64_t *nodes;        /* (N): old id of each kept node, -1 of a new one */
    int64_t *edge_index;   /* (E,2): new ids; kept edges in their old order */
    int64_t *config_nodes; /* (K): the configurable nodes in their old order, new ids */
} tg_pruned;

/* The graph a method looks at: edge_index (E,2), read once and checked then; config_nodes (K,), which nobody may
   change meanwhile. */
typedef struct tg_prune_input {
    int64_t N, E, K;
    const int64_t *edge_index, *config_nodes;
    int64_t hops; /* for k-hop and consumers: >= 1 */
    int dummies;  /* for merge: neighbours of configurable nodes become new nodes, too */
} tg_prune_input;

/* Prune by the method of that name, see tpugraphs.prune. Indices are checked here: TG_E_DATA when one is out of range
   or a configurable node is listed twice, TG_E_CONFIG for an unknown name. */
tg_status tg_prune(tg_pruned *out, const char *method, const tg_prune_input *in, tg_error *err);
void tg_pruned_free(tg_pruned *pruned);

#endif
