/* Graphs cut into segments: ranges of consecutive nodes, with the edges that do not leave them (Cao et al. 2023). */
#ifndef TG_SEGMENT_H
#define TG_SEGMENT_H

#include "model/graph.h"

/* Nodes of every segment but the last, at most `most` (>= 1), of a graph of N. These are P = N / most + 1
   segments of N / P + 1, or fewer: none is empty. */
int32_t tg_segment_nodes(int32_t N, int64_t most);
int32_t tg_segments(int32_t N, int64_t most);

/* Make segment `which` of `whole`, which must outlive it: arrays are borrowed from there; tg_graph_free frees
   everything that the segment owns. It has the configs of the whole, and reads the digits of its own nodes.
   Edges and configurable nodes keep their order. */
tg_status tg_graph_cut(tg_graph *segment, const tg_graph *whole, int64_t most, int32_t which, tg_error *err);

#endif
