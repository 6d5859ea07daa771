/* The row of numbers per config that trees learn from: the columns that all configs of a graph share, then the config's
   own columns, then its digits, node by node. */
#ifndef TG_TABLE_H
#define TG_TABLE_H

#include <stdint.h>

typedef struct tg_config_rows {
    int64_t N, F, G; /* nodes, their columns, columns of the graph */
    const float *node_feat, *graph_feat;
    const float *config_feat; /* (n, T), or NULL: then a row is the digits alone */
    const int8_t *digits;     /* (n, K, D) */
    int64_t T, cells;         /* cells: K * D */
} tg_config_rows;

/* Columns of a row; of those that all configs share. */
int64_t tg_table_width(const tg_config_rows *c);
int64_t tg_table_shared(const tg_config_rows *c);

/* shared(tg_table_shared): number of nodes; mean, maximum, standard deviation and last value of each of their columns;
   the graph's own. */
void tg_table_graph(const tg_config_rows *c, float *shared);

/* rows(n, tg_table_width) of the configs from `first` on. */
void tg_table_rows(const tg_config_rows *c, const float *shared, int64_t first, int64_t n, float *rows);

#endif
