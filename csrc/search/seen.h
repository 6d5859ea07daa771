/* Codes that a search has asked for, in the order of asking, each once: found by a hash and a comparison. Those that were
   told have a score, and, where a search reads them, changes of the score; the last ones may still wait for theirs. */
#ifndef TG_SEEN_H
#define TG_SEEN_H

#include <stdint.h>

#include "base/status.h"

typedef struct tg_seen {
    int64_t P;           /* numbers of a code */
    int64_t S;           /* changes of each, 0: none are kept */
    int64_t count, told; /* codes; those with scores come first */
    int64_t room, slots; /* codes that fit; size of the table, a power of two, or 0 */
    int32_t *code;       /* (room, P) */
    double *score;       /* (room) */
    float *change;       /* (room, S) */
    int64_t *slot;       /* (slots), 0: free; otherwise number of the code + 1 */
} tg_seen;

void tg_seen_free(tg_seen *seen);

/* Number of an equal code(P), or -1. */
int64_t tg_seen_find(const tg_seen *seen, const int32_t *code);

/* Append a code(P) that is not there. */
tg_status tg_seen_add(tg_seen *seen, const int32_t *code, tg_error *err);

/* Forget all. */
void tg_seen_clear(tg_seen *seen);

#endif
