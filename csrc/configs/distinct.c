#include "configs/distinct.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"

/* Two strands, each of every other 16 bytes, for a step has to wait for the one before it. */
typedef struct strand {
    uint64_t a, b;
} strand;

/* A bijection of the state for given input, and of the input for a given state. */
static inline strand step(strand s, uint64_t low, uint64_t high) {
    s.a = (s.a ^ low) * 0xff51afd7ed558ccdu;
    s.b = (s.b ^ high) * 0xc4ceb9fe1a85ec53u;
    s.a = (s.a << 29 | s.a >> 35) + s.b;
    s.b = (s.b << 31 | s.b >> 33) + s.a;
    return s;
}

/* Rows that differ in one 16-byte block only never collide. Rows of one call have one width. */
tg_hash128 tg_hash_row(const uint8_t *row, size_t width) {
    strand even = {0x9e3779b97f4a7c15u, 0xd1b54a32d192ed03u},
           odd = {0x8cb92ba72f3d8dd7u, 0xaaf5df3cd7d5a1e9u};
    for (size_t at = 0; at < width; at += 32) {
        uint64_t word[4] = {0, 0, 0, 0};
        if (width - at >= 32) memcpy(word, row + at, 32);
        else memcpy(word, row + at, width - at);
        even = step(even, word[0], word[1]);
        odd = step(odd, word[2], word[3]);
    }
    even.a ^= tg_mix64(odd.a);
    even.b ^= tg_mix64(odd.b);
    return (tg_hash128){tg_mix64(even.a), tg_mix64(even.b + tg_mix64(even.a))};
}

static int64_t table_size(int64_t items) {
    int64_t size = 16;
    while (size < 2 * items) size *= 2;
    return size;
}

tg_status tg_distinct_new(tg_distinct *d, int64_t rows, int64_t width, tg_error *err) {
    *d = (tg_distinct){.width = (size_t)width, .size = table_size(rows)};
    if (rows >= INT32_MAX) return tg_fail(err, TG_E_DATA, "too many configs: %lld", (long long)rows);
    d->hash = malloc((size_t)(rows + 1) * sizeof *d->hash);
    d->slot = calloc((size_t)d->size, sizeof *d->slot);
    if (d->hash != NULL && d->slot != NULL) return TG_OK;
    return tg_fail(err, TG_E_MEMORY, "no memory to compare %lld configs", (long long)rows);
}

void tg_distinct_free(tg_distinct *d) {
    free(d->hash);
    free(d->slot);
    d->hash = NULL;
    d->slot = NULL;
}

/* The number of the row that equals `row`; if there is none it is `count`, which is one more after the call. first
   (count,): the place among `rows` of each distinct one, its own number if NULL. */
static int64_t add(tg_distinct *d, tg_hash128 hash, const uint8_t *rows, const int64_t *first,
                   const uint8_t *row) {
    int64_t at = (int64_t)(hash.low & (uint64_t)(d->size - 1));
    for (; d->slot[at] != 0; at = (at + 1) & (d->size - 1)) {
        const int64_t number = d->slot[at] - 1, other = first == NULL ? number : first[number];
        if (d->hash[number].low == hash.low && d->hash[number].high == hash.high &&
            memcmp(rows + (size_t)other * d->width, row, d->width) == 0)
            return number;
    }
    d->hash[d->count] = hash;
    d->slot[at] = (int32_t)++d->count;
    return d->count - 1;
}

void tg_distinct_take(tg_distinct *d, uint8_t *kept, const uint8_t *rows, int64_t n, int64_t *numbers) {
    enum { TOGETHER = 256 }; /* whose places are fetched before the first of them is looked at */
    tg_hash128 hash[TOGETHER];
    for (int64_t start = 0; start < n; start += TOGETHER) {
        const int64_t end = n - start < TOGETHER ? n : start + TOGETHER;
        for (int64_t i = start; i < end; i++) {
            hash[i - start] = tg_hash_row(rows + (size_t)i * d->width, d->width);
            __builtin_prefetch(d->slot + (hash[i - start].low & (uint64_t)(d->size - 1)));
        }
        for (int64_t i = start; i < end; i++) {
            const uint8_t *row = rows + (size_t)i * d->width;
            const int64_t known = d->count;
            numbers[i] = add(d, hash[i - start], kept, NULL, row);
            if (numbers[i] == known) memmove(kept + (size_t)known * d->width, row, d->width);
        }
    }
}

/* Rows hashed at a time, by all threads. */
enum { HASHED = 1 << 12 };

tg_status tg_rows_dedup(int64_t *first, int64_t *inverse, int64_t *U, const void *rows, int64_t C,
                        int64_t width, tg_error *err) {
    tg_distinct d;
    tg_hash128 hash[HASHED];
    const uint8_t *bytes = rows;
    tg_status status = tg_distinct_new(&d, C, width, err);
    for (int64_t start = 0; status == TG_OK && start < C; start += HASHED) {
        const int64_t end = C - start < HASHED ? C : start + HASHED;
#pragma omp parallel for schedule(static) num_threads(tg_threads((double)(end - start) * (double)width))
        for (int64_t c = start; c < end; c++)
            hash[c - start] = tg_hash_row(bytes + (size_t)c * d.width, d.width);
        for (int64_t c = start; c < end; c++) {
            const int64_t known = d.count;
            inverse[c] = add(&d, hash[c - start], bytes, first, bytes + (size_t)c * d.width);
            if (inverse[c] == known) first[known] = c;
        }
    }
    *U = d.count;
    tg_distinct_free(&d);
    return status;
}
