/* Random-walk encodings: for a node v and k steps, the chance to be back at v, (P^k)[v,v] with P = D^-1 A.
   A counts edges between two nodes, in both directions if undirected, else from a node to those that consume its
   output; with loops, each node also has an edge to itself; D is the diagonal of the row sums of A. A node without an
   edge has chance 0. */
#ifndef TG_WALK_H
#define TG_WALK_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_walk {
    int64_t N, E;
    const int64_t *edges; /* (E,2): rows (u,v), u consumes the output of v; checked */
    int directed, loops;
    int first, last; /* k in first..last */
    /* Instead of the chance to be back, for k >= 2, the chance mass that arrives from all other nodes together: the
       column sum of P^k less its diagonal (third place of the Kaggle competition). */
    int arriving;
} tg_walk;

/* Row i of to, of `ld` floats each, gets the last - first + 1 numbers of node nodes[i], i < n; 0 if that is -1. NULL: of
   node i.
   Computed in float64; the same bits for any number of threads; memory O(N) for each thread. */
tg_status tg_walk_encode(float *to, int64_t ld, const tg_walk *walk, const int64_t *nodes, int64_t n,
                         tg_error *err);

#endif
