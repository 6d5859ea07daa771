#include "hlo/ids.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FIRST_ROOM = 64, SHORT = 16 };

tg_status tg_ids_grow(tg_ids *ids, tg_error *err) {
    int64_t room = ids->room == 0 ? FIRST_ROOM : 2 * ids->room;
    int64_t *items = realloc(ids->items, (size_t)room * sizeof *items);
    if (items == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the edges of a graph");
    ids->items = items;
    ids->room = room;
    return TG_OK;
}

void tg_ids_free(tg_ids *ids) {
    free(ids->items);
    *ids = (tg_ids){NULL, 0, 0};
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t tg_ids_unique(int64_t *items, int64_t count) {
    if (count < 2) return count;
    if (count > SHORT) qsort(items, (size_t)count, sizeof *items, compare);
    for (int64_t i = 1; i < count && count <= SHORT; i++) {
        const int64_t item = items[i];
        int64_t to = i;
        for (; to > 0 && items[to - 1] > item; to--) items[to] = items[to - 1];
        items[to] = item;
    }
    int64_t kept = 1;
    for (int64_t i = 1; i < count; i++)
        if (items[i] != items[kept - 1]) items[kept++] = items[i];
    return kept;
}

tg_status tg_id_map_reset(tg_id_map *map, int64_t count, tg_error *err) {
    int64_t room = 4;
    while (room < 2 * count) room *= 2;
    if (room > map->room) {
        free(map->entries);
        map->entries = malloc((size_t)room * sizeof *map->entries);
        map->room = map->entries == NULL ? 0 : room;
        if (map->entries == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the ids of a module");
    }
    /* A file cannot choose ids that all belong in one place, as it cannot know the places. They show nowhere. */
    if (map->secret[0] == 0 && getentropy(map->secret, sizeof map->secret) != 0) map->secret[0] = 0;
    map->secret[0] |= 1;
    memset(map->entries, 0, (size_t)room * sizeof *map->entries);
    map->mask = (uint64_t)room - 1;
    return TG_OK;
}

void tg_id_map_free(tg_id_map *map) {
    free(map->entries);
    *map = (tg_id_map){0};
}

/* The entry of the id, or the free one where it belongs. */
static inline struct tg_id_entry *entry_of(const tg_id_map *map, int64_t id) {
    uint64_t hash = ((uint64_t)id ^ map->secret[1]) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 32) * map->secret[0];
    uint64_t at = (hash ^ hash >> 32) & map->mask;
    while (map->entries[at].number != 0 && map->entries[at].id != id) at = (at + 1) & map->mask;
    return &map->entries[at];
}

int64_t tg_id_map_add(tg_id_map *map, int64_t id, int64_t number) {
    struct tg_id_entry *entry = entry_of(map, id);
    if (entry->number != 0) return entry->number - 1;
    *entry = (struct tg_id_entry){id, number + 1};
    return -1;
}

int64_t tg_id_map_find(const tg_id_map *map, int64_t id) { return entry_of(map, id)->number - 1; }
