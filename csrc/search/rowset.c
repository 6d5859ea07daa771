#include "search/rowset.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

int tg_rowset_open(tg_rowset *set, const int32_t *rows, int32_t width, int64_t most) {
    int64_t slots = 16;
    while (slots < 2 * most) slots *= 2;
    *set = (tg_rowset){calloc((size_t)slots, sizeof *set->slot), slots - 1, 0, rows, width};
    return set->slot != NULL;
}

void tg_rowset_free(tg_rowset *set) {
    free(set->slot);
    set->slot = NULL;
}

/* The slot of an equal row, or the empty one where it would be. */
static int64_t slot_of(const tg_rowset *set, const int32_t *row) {
    uint64_t key = 0;
    for (int32_t i = 0; i < set->width; i++) key = tg_key(key, (uint32_t)row[i]);
    int64_t at = (int64_t)(key & (uint64_t)set->mask);
    const size_t bytes = (size_t)set->width * sizeof *row;
    while (set->slot[at] != 0 && memcmp(set->rows + (set->slot[at] - 1) * set->width, row, bytes) != 0)
        at = (at + 1) & set->mask;
    return at;
}

int64_t tg_rowset_find(const tg_rowset *set, const int32_t *row) { return set->slot[slot_of(set, row)] - 1; }

int tg_rowset_add(tg_rowset *set, int64_t place) {
    const int64_t at = slot_of(set, set->rows + place * set->width);
    if (set->slot[at] != 0) return 0;
    set->slot[at] = place + 1;
    set->count++;
    return 1;
}
