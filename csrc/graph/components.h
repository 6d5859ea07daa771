/* Strongly connected components. */
#ifndef TG_COMPONENTS_H
#define TG_COMPONENTS_H

#include "graph/csr.h"

/* component (N): equal numbers for nodes that reach each other; in a graph without cycles every node has its own.
   `next` lists for each node those that it leads to. O(N + E), without recursion. */
tg_status tg_components(int32_t *component, const tg_csr *next, tg_error *err);

#endif
