/* Graphs cut into segments: ranges of consecutive nodes, with the edges that do not leave them (Cao et al. 2023). */
#ifndef TG_SEGMENT_H
#define TG_SEGMENT_H

#include "model/graph.h"

/* Nodes of every segment but the last, at most `most` (>= 1), of a graph of N: P = N / most + 1 segments of N / P + 1.
   These may need fewer than P: there is no empty one. */
int32_t tg_segment_nodes(int32_t N, int64_t most);
int32_t tg_segments(int32_t N, int64_t most);

/* Segment `which` of `whole`, which must outlive it: the arrays are borrowed from there, all that the segment has of
   its own goes with tg_graph_free. Configs are those of the whole, of which it reads the digits of its nodes. Edges
   and configurable nodes keep their order. */
tg_status tg_graph_cut(tg_graph *segment, const tg_graph *whole, int64_t most, int32_t which, tg_error *err);

#endif
