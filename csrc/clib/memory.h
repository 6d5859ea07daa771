/* Memory of the C library: what its core allocates comes from the heap that the calling thread has entered, malloc's
   without one, and goes back to where it came from. The compiler is given this header before every source file of the
   library, so that the core need not know. */
#ifndef TG_MEMORY_H
#define TG_MEMORY_H

#define _GNU_SOURCE /* as files that come after it ask for */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Where memory comes from; constant while blocks of it are in use. */
typedef struct tg_heap {
    void *(*allocate)(void *context, size_t bytes); /* NULL: malloc */
    void (*release)(void *context, void *block);
    void *context;
} tg_heap;

/* The heap of the calling thread from now on; returns the one before, to be entered again. NULL: malloc's. */
const tg_heap *tg_heap_enter(const tg_heap *heap);

/* One block that knows no heap, so that it can hold one. */
void *tg_heap_take(const tg_heap *heap, size_t bytes);
void tg_heap_give(tg_heap heap, void *block);

void *tg_heap_malloc(size_t bytes);
void *tg_heap_calloc(size_t count, size_t size);
void *tg_heap_realloc(void *block, size_t bytes);
int tg_heap_memalign(void **block, size_t align, size_t bytes);
void tg_heap_free(void *block);

/* qsort of the system may take memory of its own. This one takes it from the heap, and is stable. */
void tg_heap_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));

/* A heap within one block of memory: first fit, of one thread at a time. It must not move. */
typedef struct tg_pool {
    tg_heap heap, parent; /* to enter; where it takes from if it only counts */
    char *base;
    size_t size, live, peak; /* bytes in use now, and at most */
} tg_pool;

/* base NULL: takes from `parent`, and only counts. */
void tg_pool_init(tg_pool *pool, void *base, size_t size, const tg_heap *parent);

#define malloc         tg_heap_malloc
#define calloc         tg_heap_calloc
#define realloc        tg_heap_realloc
#define free           tg_heap_free
#define posix_memalign tg_heap_memalign
#define qsort          tg_heap_sort

#endif
