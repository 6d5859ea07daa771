/* What a model needs of one prepared graph: scaled features, adjacency both ways, config digits. The arrays
   are borrowed (py/ keeps them alive) or owned; the index structures are owned. */
#ifndef TG_GRAPH_H
#define TG_GRAPH_H

#include "configs/codes.h"
#include "graph/csr.h"
#include "ops/op.h"

enum { TG_OWNED_AMONG = 5, TG_OWNED };

typedef struct tg_graph {
    int32_t N, E, K, F;
    int64_t C;                   /* configs stored */
    int has_configs;             /* digits given (even if K is 0), features of configs, or both */
    int D, digit_rows;           /* digits of a configurable node; their values are in -1..digit_rows-3 */
    int T, G;                    /* columns of config_feat, of graph_feat; 0 without */
    const float *node_feat;      /* (N,F) */
    const uint8_t *opcode;       /* (N) or NULL */
    const int8_t *layout;        /* (N,6) or NULL */
    const int8_t *digits;        /* (C,K,D), or NULL and */
    tg_codes codes;              /* the same as numbers; the table is owned */
    int32_t all_K;               /* of a segment: nodes whose digits both have, and */
    const int32_t *among;        /* (K) its own are among them here; NULL: all are the graph's */
    const float *config_feat;    /* (C,T) or NULL */
    const float *graph_feat;     /* (G) or NULL */
    tg_csr by_source, by_target; /* rows u: their v's; rows v: their u's */
    tg_csr both_in, both_out;    /* both; they differ in the numbers of their edges */
    int32_t *config_of;          /* (N) */
    int32_t *config_node;        /* (K) */
    int32_t *alike;              /* (K): the first configurable node with the same features and opcode */
    int32_t *ends[2];            /* (E) each: consumer, operand */
    float *inv_degree[TG_DIRECTIONS]; /* (N) each */
    void *owned[TG_OWNED];            /* arrays owned by the graph, NULL where borrowed */
} tg_graph;

/* Number of configurable nodes in the stored digits: K, unless the graph is a segment. */
static inline int32_t tg_all_config_nodes(const tg_graph *g) { return g->among != NULL ? g->all_K : g->K; }

/* Check every index and build the structures. The array fields and sizes of `graph` are set by the caller. */
tg_status tg_graph_init(tg_graph *graph, const int64_t *edge_index, const int64_t *config_nodes,
                        tg_error *err);
/* The same for arrays that have been checked. */
tg_status tg_graph_build(tg_graph *graph, const int64_t *edge_index, const int64_t *config_nodes,
                         tg_error *err);
void tg_graph_free(tg_graph *graph);

/* Set configs (C,K,3) as numbers, of `size` bytes, of entries of `table` (entries,6), which is checked and
   copied. The graph's configurable nodes must be set. */
tg_status tg_graph_set_codes(tg_graph *graph, const void *data, int size, int64_t C, const int8_t *table,
                             int64_t entries, tg_error *err);

/* One entry of a batch: a graph and rows (C) of its configs. */
typedef struct tg_entry {
    const tg_graph *graph;
    const int64_t *rows;
    int32_t C;
} tg_entry;

/* Check the rows and their values, and gather them: digits (C,K,D), config_feat (C,T) unless it is NULL. */
tg_status tg_gather_configs(const tg_entry *entry, int8_t *digits, float *config_feat, tg_error *err);

/* Find equal cells (k,c) of an entry: the same digits at nodes that are alike, or at the same node; or no
   cell equals another. Fills unique_of (K,C), unique_at (at most K*C) with k*C + c of the first of each kind,
   and returns their number, or -1 without memory or with more cells than an int32_t counts. */
typedef enum { TG_ALIKE_CELLS, TG_CELLS_OF_A_NODE, TG_NO_CELLS } tg_equal_cells;
int32_t tg_unique_cells(const tg_entry *entry, const int8_t *digits, tg_equal_cells equal, int32_t *unique_of,
                        int32_t *unique_at);

/* The slate of an entry, without the configs. */
tg_slate tg_make_slate(const tg_entry *entry);

#endif
