/* A set of rows of int32 by their place in an array: which of them is equal to a given one. */
#ifndef TG_ROWSET_H
#define TG_ROWSET_H

#include <stdint.h>

typedef struct tg_rowset {
    int64_t *slot; /* place + 1, or 0 */
    int64_t mask, count;
    const int32_t *rows;
    int32_t width;
} tg_rowset;

/* A set of rows of rows(most, width), so far none; 0: no memory. */
int tg_rowset_open(tg_rowset *set, const int32_t *rows, int32_t width, int64_t most);
void tg_rowset_free(tg_rowset *set);

/* The place of an equal row, or -1. */
int64_t tg_rowset_find(const tg_rowset *set, const int32_t *row);

/* Add the row at that place, unless there is an equal one. Whether it was added. */
int tg_rowset_add(tg_rowset *set, int64_t place);

#endif
