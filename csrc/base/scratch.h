/* One function that both measures memory and hands it out: it takes its parts in a fixed order, first from nothing
   (base NULL; `used` becomes the size that is needed), then from a block of that size. Parts begin at multiples of 64
   bytes, so they are aligned as the block is, up to 64. Checked builds have a redzone behind every part, and a third
   call, with `closing`, checks them. */
#ifndef TG_SCRATCH_H
#define TG_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/check.h"

typedef struct tg_scratch {
    char *base;
    size_t used;
    const char *closing; /* what the block is, if its redzones are to be looked at; else NULL */
} tg_scratch;

static inline void *tg_take(tg_scratch *c, int64_t count, size_t size) {
    TG_ASSERT(count >= 0);
    const size_t bytes = (size_t)count * size;
    char *part = c->base == NULL ? NULL : c->base + c->used;
    c->used += tg_align(bytes + TG_REDZONE_BYTES);
    if (TG_REDZONE > 0 && part != NULL) {
        if (c->closing != NULL) tg_redzone_close(c->closing, part, bytes);
        else tg_redzone_open(part, bytes);
    }
    return part;
}

#endif
