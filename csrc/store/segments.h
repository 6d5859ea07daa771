/* Graph Segment Training: a step trains one segment of a graph, the others add the scores they had last.

   Cao et al., "Learning Large Graph Property Prediction via Graph Segment Training", 2023. The score of a graph is the sum
   over its P segments. A step computes fresh scores f_i of one of them, i, drawn at random, and the loss sees

       eta f_i + sum of the stored scores of the segments that are represented.

   Another segment is represented if a coin keeps it and all configs of the slate have a stored score in it. eta is the
   number of segments that are not represented, including i. So P segments count in every draw and, by symmetry, each is
   expected to count once: the expectation is the score of the graph, up to the age of stored scores. The published form has
   eta = 1 + (P - 1)(1 - keep), which assumes that all others are stored, and uses zeros where they are not. Until all
   configs were visited in all segments, its scores are too small, and those of different configs cannot be compared.

   Coins are tossed per slate, not per config: what a segment adds to the scores of all configs must cancel when two of them
   are compared. */
#ifndef TG_SEGMENTS_H
#define TG_SEGMENTS_H

#include <stdint.h>

#include "base/status.h"

/* Scores of the segments of one graph, as they were last computed. Memory grows with the configs that were visited. */
typedef struct tg_stored {
    int64_t graph, count;    /* its number, its segments */
    int64_t n, room;         /* configs, and room for so many */
    int64_t *configs, *rows; /* (n): ascending; where the scores of each are */
    float *scores;           /* (room, count); NaN: none yet */
} tg_stored;

typedef struct tg_segments {
    double keep; /* chance that the stored scores of another segment count; with 0 none are stored */
    uint64_t seed;
    tg_stored *graphs; /* (n): ascending by number */
    int64_t n;
} tg_segments;

void tg_segments_free(tg_segments *s);

/* The segment that a visit to a graph of `count` segments trains, which follows from seed and visit, and what the loss
   sees: scale times its scores + shift (n), for n configs. */
tg_status tg_segments_draw(const tg_segments *s, int64_t graph, int64_t visit, int64_t count,
                           const int64_t *configs, int64_t n, int64_t *segment, float *scale, float *shift,
                           tg_error *err);

/* Store fresh scores (n) of configs (n) in a segment of a graph. */
tg_status tg_segments_store(tg_segments *s, int64_t graph, int64_t count, int64_t segment,
                            const int64_t *configs, const float *scores, int64_t n, tg_error *err);

/* Everything stored: number of the graph, configs and segments of each (n, 3), then configs and scores of one graph after
   the other, ascending. tg_segments_size says how many; tg_segments_load takes them back, for numbers below `graphs`, and
   refuses anything else by the field "segments.sizes", "segments.configs" or "segments.scores". */
void tg_segments_size(const tg_segments *s, int64_t *configs, int64_t *scores);
void tg_segments_save(const tg_segments *s, int64_t *sizes, int64_t *configs, float *scores);
tg_status tg_segments_load(tg_segments *s, const int64_t *sizes, int64_t n, const int64_t *configs,
                           int64_t n_configs, const float *scores, int64_t n_scores, int64_t graphs,
                           tg_error *err);

#endif
