/* One growing block of 64-byte-aligned memory. Contents are lost when it grows: plan first, then reserve.
   Layout is decided by the caller (model/plan.c); the arena only owns the bytes. */
#ifndef TG_ARENA_H
#define TG_ARENA_H

#include <stddef.h>

#define TG_ALIGN 64

typedef struct tg_arena {
    void *base;
    size_t size;
} tg_arena;

/* Round a byte count up to the alignment. */
static inline size_t tg_align(size_t bytes) { return (bytes + (TG_ALIGN - 1)) & ~(size_t)(TG_ALIGN - 1); }

int tg_arena_reserve(tg_arena *arena, size_t bytes); /* 0 when there is no memory */
void tg_arena_free(tg_arena *arena);

void *tg_aligned_alloc(size_t bytes); /* NULL when there is no memory; free with tg_aligned_free */
void tg_aligned_free(void *block);

#endif
