/* Ids of instructions and computations: lists of them, and maps from ids to positions. */
#ifndef TG_IDS_H
#define TG_IDS_H

#include <stdint.h>

#include "base/status.h"

/* A list of numbers that grows. */
typedef struct tg_ids {
    int64_t *items;
    int64_t count, room;
} tg_ids;

tg_status tg_ids_grow(tg_ids *ids, tg_error *err);
void tg_ids_free(tg_ids *ids);

static inline tg_status tg_ids_add(tg_ids *ids, int64_t id, tg_error *err) {
    if (ids->count == ids->room) {
        const tg_status status = tg_ids_grow(ids, err);
        if (status != TG_OK) return status;
    }
    ids->items[ids->count++] = id;
    return TG_OK;
}

/* Sort the first of `count` items and drop equal ones; returns how many are left. */
int64_t tg_ids_unique(int64_t *items, int64_t count);

/* Finds a number >= 0 by an id of 64 bits. All zero at first. */
typedef struct tg_id_map {
    struct tg_id_entry {
        int64_t id, number; /* number + 1, or 0 */
    } *entries;
    uint64_t mask;
    int64_t room;       /* entries there is memory for */
    uint64_t secret[2]; /* of the hash; the first is odd */
} tg_id_map;

/* Make it empty, for `count` ids. */
tg_status tg_id_map_reset(tg_id_map *map, int64_t count, tg_error *err);
void tg_id_map_free(tg_id_map *map);

/* -1, or the number that the id has already. No more ids than were announced. */
int64_t tg_id_map_add(tg_id_map *map, int64_t id, int64_t number);
/* -1: unknown. */
int64_t tg_id_map_find(const tg_id_map *map, int64_t id);

#endif
