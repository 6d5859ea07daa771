/* Graphs out of files: an .npz, a pack or HLO, by their contents. */
#ifndef TG_LOADING_H
#define TG_LOADING_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A graph out of a file; absent arrays are NULL. */
typedef struct tg_loaded {
    int64_t N, F, E, K, C, T, D, G;
    float *node_feat, *graph_feat, *config_feat; /* (N,F), (G), (C,T) */
    uint8_t *opcode;                             /* (N) */
    int64_t *edges, *ids;                        /* (E,2), (K) */
    int8_t *digits;                              /* (C,K,D) */
} tg_loaded;
tg_status tg_load_graph(tg_loaded *to, const uint8_t *bytes, size_t size, tg_error *err);
void tg_loaded_free(tg_loaded *loaded);

#endif
