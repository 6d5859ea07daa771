/* Rows of numbers about layouts, one per config, with the same meaning in every graph: see
   preprocess.layout_table. */
#ifndef TG_LAYOUTTABLE_H
#define TG_LAYOUTTABLE_H

#include <stdint.h>

#include "base/status.h"

/* A layout graph. Its edges are checked when the table is opened. */
typedef struct tg_layout_graph {
    int64_t N, E, K;
    const float *node_feat;      /* (N, TG_NODE_FEATURES) */
    const uint8_t *node_opcode;  /* (N), or NULL */
    const int64_t *edges;        /* (E, 2) */
    const int64_t *config_nodes; /* (K) */
} tg_layout_graph;

/* What is the same for all configs. */
typedef struct tg_layout_table tg_layout_table;

int64_t tg_layout_table_width(int64_t bins);

/* `*table` is NULL after an error. */
tg_status tg_layout_table_open(tg_layout_table **table, const tg_layout_graph *graph, int64_t bins,
                               tg_error *err);
void tg_layout_table_free(tg_layout_table *table); /* NULL is fine */

/* rows(n, width) of configs with the digits (n, K, TG_DIGITS), which are in -1..5. */
void tg_layout_table_rows(const tg_layout_table *table, const int8_t *digits, int64_t n, float *rows);

/* rates(C, 3): for each config the mean logarithm, the mean and the least of the shares of all configs in which a node
   has the layouts that it has there, over the K nodes. cells(C, K, width) bytes are equal where the layouts are. */
tg_status tg_layout_rates(float *rates, const uint8_t *cells, int64_t C, int64_t K, int64_t width,
                          tg_error *err);

#endif
