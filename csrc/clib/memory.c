#include "clib/memory.h"

#include <errno.h>
#include <string.h>

#undef malloc /* those of the C library are meant here */
#undef free
#undef qsort

/* Before every block. */
typedef struct head {
    const tg_heap *heap; /* NULL: malloc's */
    void *whole;         /* what the heap gave */
    size_t bytes;
} head;

enum { ALIGN = 16, HEAD = (sizeof(head) + ALIGN - 1) / ALIGN * ALIGN };

static _Thread_local const tg_heap *entered;

const tg_heap *tg_heap_enter(const tg_heap *heap) {
    const tg_heap *before = entered;
    entered = heap != NULL && heap->allocate != NULL ? heap : NULL;
    return before;
}

static head *head_of(void *block) { return (head *)(void *)((char *)block - HEAD); }

static void *take(size_t align, size_t bytes) {
    if (bytes > SIZE_MAX - HEAD - align) return NULL;
    const size_t size = bytes + HEAD + (align > ALIGN ? align - ALIGN : 0);
    char *whole = entered == NULL ? malloc(size) : entered->allocate(entered->context, size);
    if (whole == NULL) return NULL;
    const uintptr_t first = (uintptr_t)whole + HEAD, off = first & (align - 1);
    char *block = whole + HEAD + (off == 0 ? 0 : align - off);
    *head_of(block) = (head){entered, whole, bytes};
    return block;
}

void *tg_heap_take(const tg_heap *heap, size_t bytes) {
    return heap->allocate == NULL ? malloc(bytes) : heap->allocate(heap->context, bytes);
}

void tg_heap_give(tg_heap heap, void *block) {
    if (heap.allocate == NULL) free(block);
    else heap.release(heap.context, block);
}

void *tg_heap_malloc(size_t bytes) { return take(ALIGN, bytes); }

void *tg_heap_calloc(size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    void *block = take(ALIGN, count * size);
    return block == NULL ? NULL : memset(block, 0, count * size);
}

void *tg_heap_realloc(void *block, size_t bytes) {
    void *other = take(ALIGN, bytes);
    if (block == NULL || other == NULL) return other;
    const size_t had = head_of(block)->bytes;
    memcpy(other, block, had < bytes ? had : bytes);
    tg_heap_free(block);
    return other;
}

int tg_heap_memalign(void **block, size_t align, size_t bytes) {
    void *taken = take(align, bytes);
    if (taken == NULL) return ENOMEM;
    *block = taken;
    return 0;
}

void tg_heap_free(void *block) {
    if (block == NULL) return;
    const head h = *head_of(block);
    if (h.heap == NULL) free(h.whole);
    else h.heap->release(h.heap->context, h.whole);
}

/* Merge a(m) and b(n) into `to`. */
static void merge(char *to, const char *a, size_t m, const char *b, size_t n, size_t size,
                  int (*compare)(const void *, const void *)) {
    for (; m > 0 || n > 0; to += size) {
        const int first = n == 0 || (m > 0 && compare(a, b) <= 0);
        memcpy(to, first ? a : b, size);
        if (first) a += size, m--;
        else b += size, n--;
    }
}

void tg_heap_sort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    char *from = items, *to = n < 2 ? NULL : tg_heap_calloc(n, size), *room = to;
    if (n < 2) return;
    if (to == NULL) {
        qsort(items, n, size, compare);
        return;
    }
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t i = 0; i < n; i += 2 * run) {
            const size_t m = n - i < run ? n - i : run, k = n - i - m < run ? n - i - m : run;
            merge(to + i * size, from + i * size, m, from + (i + m) * size, k, size, compare);
        }
        char *other = from;
        from = to, to = other;
    }
    if (from != items) memcpy(items, from, n * size);
    tg_heap_free(room);
}

/* ---- pools ---- */

/* Pieces lie one after another from the base, each with a head of its own; free neighbours are joined when one looks for
   room, so that nothing links them. */
typedef struct piece {
    size_t size; /* with this head */
    size_t used;
} piece;

static void note(tg_pool *p, size_t more) {
    p->live += more;
    if (p->live > p->peak) p->peak = p->live;
}

static size_t rounded(size_t bytes) { return (bytes + sizeof(piece) + ALIGN - 1) / ALIGN * ALIGN; }

static void *count_allocate(void *context, size_t bytes) {
    const size_t size = rounded(bytes);
    piece *block = tg_heap_take(&((tg_pool *)context)->parent, size);
    if (block == NULL) return NULL;
    *block = (piece){size, 1};
    note(context, size);
    return block + 1;
}

static void count_release(void *context, void *block) {
    piece *at = (piece *)block - 1;
    tg_pool *p = context;
    p->live -= at->size;
    tg_heap_give(p->parent, at);
}

static void *pool_allocate(void *context, size_t bytes) {
    tg_pool *p = context;
    if (bytes > p->size) return NULL;
    const size_t size = rounded(bytes);
    for (size_t at = 0; at < p->size;) {
        piece *here = (piece *)(void *)(p->base + at);
        at += here->size;
        if (here->used) continue;
        for (; at < p->size; at = (size_t)((char *)here - p->base) + here->size) {
            const piece *next = (const piece *)(const void *)(p->base + at);
            if (next->used) break;
            here->size += next->size;
        }
        if (here->size < size) continue;
        if (here->size - size >= 2 * sizeof *here) {
            *(piece *)(void *)((char *)here + size) = (piece){here->size - size, 0};
            here->size = size;
        }
        here->used = 1;
        note(p, here->size);
        return here + 1;
    }
    return NULL;
}

static void pool_release(void *context, void *block) {
    piece *at = (piece *)block - 1;
    at->used = 0;
    ((tg_pool *)context)->live -= at->size;
}

void tg_pool_init(tg_pool *p, void *base, size_t size, const tg_heap *parent) {
    *p = (tg_pool){.parent = *parent, .base = base, .size = size / ALIGN * ALIGN};
    p->heap = base == NULL ? (tg_heap){count_allocate, count_release, p}
                           : (tg_heap){pool_allocate, pool_release, p};
    if (base != NULL) *(piece *)base = (piece){p->size, 0};
}
