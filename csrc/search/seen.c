#include "search/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/extent.h"
#include "base/rng.h"

void tg_seen_free(tg_seen *s) {
    free(s->code);
    free(s->score);
    free(s->change);
    free(s->slot);
    *s = (tg_seen){.P = s->P, .S = s->S};
}

void tg_seen_clear(tg_seen *s) {
    s->count = s->told = 0;
    if (s->slots > 0) memset(s->slot, 0, (size_t)s->slots * sizeof *s->slot);
}

static uint64_t hash_of(const int32_t *code, int64_t P) {
    uint64_t hash = (uint64_t)P;
    for (int64_t p = 0; p < P; p++) hash = tg_key(hash, (uint64_t)code[p]);
    return hash;
}

/* The place of a code in the table: its own, or a free one. */
static int64_t place_of(const tg_seen *s, const int32_t *code) {
    const int64_t mask = s->slots - 1;
    int64_t at = (int64_t)(hash_of(code, s->P) & (uint64_t)mask);
    while (s->slot[at] != 0 && memcmp(s->code + (s->slot[at] - 1) * s->P, code, (size_t)s->P * sizeof *code))
        at = (at + 1) & mask;
    return at;
}

int64_t tg_seen_find(const tg_seen *s, const int32_t *code) {
    return s->slots == 0 ? -1 : s->slot[place_of(s, code)] - 1;
}

/* An array with room for `room` items of `size` bytes; 0 without memory. */
static int widen(void *array, int64_t room, int64_t width, size_t size) {
    const int64_t shape[2] = {room, width}, bytes = tg_extent(shape, 2, (int64_t)size);
    void **at = array, *larger = bytes < 0 ? NULL : realloc(*at, (size_t)bytes + 1);
    if (larger == NULL) return 0;
    *at = larger;
    return 1;
}

static tg_status grow(tg_seen *s, tg_error *err) {
    const int64_t room = s->room == 0 ? 64 : 2 * s->room, slots = 4 * room;
    int64_t *table = calloc((size_t)slots, sizeof *table);
    if (table == NULL || !widen(&s->code, room, s->P, sizeof *s->code) ||
        !widen(&s->score, room, 1, sizeof *s->score) || !widen(&s->change, room, s->S, sizeof *s->change)) {
        free(table);
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld codes of a search", (long long)room);
    }
    free(s->slot);
    s->slot = table, s->slots = slots, s->room = room;
    for (int64_t i = 0; i < s->count; i++) table[place_of(s, s->code + i * s->P)] = i + 1;
    return TG_OK;
}

tg_status tg_seen_add(tg_seen *s, const int32_t *code, tg_error *err) {
    if (s->count == s->room && grow(s, err) != TG_OK) return TG_E_MEMORY;
    memcpy(s->code + s->count * s->P, code, (size_t)s->P * sizeof *code);
    s->slot[place_of(s, code)] = s->count + 1;
    s->count++;
    return TG_OK;
}
