/* Vectors of units, such as the gradients of slates, added in a fixed order: the same bits, however ranks divide the units.
   Units are the leaves of a binary tree. A vector is the sum of those of its two children, the left one first. A rank adds
   up what lies below it alone, and sends the roots of its subtrees. */
#ifndef TG_TREESUM_H
#define TG_TREESUM_H

#include <stdint.h>

#include "base/comm.h"

enum { TG_TREE_HELD = 64 }; /* at most, roots of subtrees of neighbouring units */

typedef struct tg_subtree {
    int level, place;
} tg_subtree;

/* Roots of subtrees, from left to right. */
typedef struct tg_subtrees {
    int n;
    tg_subtree at[TG_TREE_HELD + 1];
    const float *vector[TG_TREE_HELD + 1];
} tg_subtrees;

typedef struct tg_tree_sum {
    int units, levels, rank, size, next; /* next: the unit that is added next */
    int *ends;                           /* (size): rank r adds up the units from ends[r - 1] to ends[r] */
    int64_t length;
    float *memory, *received; /* vectors of this rank's subtrees; those of all ranks */
    size_t *sizes;            /* (size): bytes that each rank sends */
    tg_subtrees own;
} tg_tree_sum;

/* For vectors of that length. `ends` ascends; the last is the number of units. Free also after an error. */
tg_status tg_tree_sum_init(tg_tree_sum *s, int64_t length, int size, const int *ends, int rank,
                           tg_error *err);
void tg_tree_sum_free(tg_tree_sum *s);

/* Begin another sum. */
void tg_tree_sum_clear(tg_tree_sum *s);

/* Add the vector of this rank's next unit, which must be there. */
void tg_tree_sum_add(tg_tree_sum *s, const float *vector);

/* total(length) = the sum of the vectors of all units. Every rank has added all of its own. */
tg_status tg_tree_sum_total(tg_tree_sum *s, const tg_comm *comm, float *total, tg_error *err);

/* order(n): units in an order by which the two children of a vector take about as much work(n). Ranks, which get
   neighbours, then end at about the same time. */
tg_status tg_tree_order(int n, const int64_t *work, int64_t *order, tg_error *err);

#endif
