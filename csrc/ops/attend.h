/* Shared by ops with attention over edges: the edges of a node, in the form that the kernels of tg_attend take. */
#ifndef TG_ATTEND_H
#define TG_ATTEND_H

#include <string.h>

#include "ops/op.h"

/* Of what is kept of every edge and head: by number of an edge, both directions one behind the other. */
static inline tg_shape tg_edge_weights(tg_space nodes, int direction, int heads) {
    return (tg_shape){tg_edge_space(nodes), (direction == TG_BOTH ? 2 : 1) * heads};
}

static inline int tg_degree(const tg_csr *csr, int64_t v) { return csr->ptr[v + 1] - csr->ptr[v]; }

/* The node whose rows, `per` of them, begin at row `at` of the tile. */
static inline void tg_set_edges(tg_attend *node, const tg_csr *csr, const tg_tile *t, int at, int per) {
    const int64_t v = t->item + at / per;
    node->rows = t->rows - at < per ? t->rows - at : per;
    node->count = tg_degree(csr, v);
    node->known = csr->E - csr->ptr[v];
    node->node = csr->idx + csr->ptr[v];
    node->edge = csr->edge + csr->ptr[v];
}

/* Of a node with one edge or none the scores do not matter. */
static inline void tg_no_dscore(const tg_attend *node) {
    TG_ASSERT(node->count <= 1);
    if (node->count == 1)
        memset(node->dscore + node->edge[0] * node->edge_stride, 0,
               (size_t)node->rows * (size_t)node->heads * sizeof *node->dscore);
}

#endif
