#define _GNU_SOURCE
#include "base/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Large blocks are aligned to huge pages and advised so: first-touch faults otherwise cost more than the
   arithmetic of a small step. */
#define TG_HUGE ((size_t)2 << 20)

void *tg_aligned_alloc(size_t bytes) {
    void *block = NULL;
    size_t align = bytes >= TG_HUGE ? TG_HUGE : TG_ALIGN;
    if (posix_memalign(&block, align, bytes == 0 ? TG_ALIGN : bytes) != 0) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= TG_HUGE) madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void tg_aligned_free(void *block) { free(block); }

int tg_arena_reserve(tg_arena *arena, size_t bytes) {
    if (bytes <= arena->size) return 1;
    tg_arena_free(arena);
    arena->base = tg_aligned_alloc(bytes);
    if (arena->base == NULL) return 0;
    arena->size = bytes;
    return 1;
}

void tg_arena_free(tg_arena *arena) {
    void *block = arena->base;
    *arena = (tg_arena){NULL, 0}; /* first: a child made by fork in between must not free it again */
    tg_aligned_free(block);
}
