#include "rank/sort.h"

enum { SHORT = 48, LONG = 4096, MOST_BITS = 11 };

static void insertion_sort(tg_keyed *items, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        tg_keyed item = items[i];
        int64_t j = i;
        for (; j > 0 && items[j - 1].key > item.key; j--) items[j] = items[j - 1];
        items[j] = item;
    }
}

/* Turns counts (buckets,) into the first place of each bucket. */
static void first_places(int64_t *counts, int buckets) {
    int64_t sum = 0;
    for (int value = 0; value < buckets; value++) {
        int64_t count = counts[value];
        counts[value] = sum;
        sum += count;
    }
}

/* Wide digits make fewer passes; for short lists they would only make long tables. */
static int digit_bits(int64_t n) { return n < LONG ? 8 : MOST_BITS; }

/* Least-significant-digit radix sort of packed (n,) = offset << 32 | index by offset. `differ` has the bits
   in which offsets differ: digits in which all agree are skipped. Returns whichever of the two arrays is
   sorted. */
static uint64_t *sort_packed(uint64_t *from, uint64_t *to, int64_t n, uint64_t differ) {
    int bits = digit_bits(n);
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (int shift = 0; shift < 32; shift += bits) {
        if ((differ >> shift & mask) == 0) continue;
        int64_t place[1 << MOST_BITS];
        memset(place, 0, sizeof *place << bits);
        for (int64_t i = 0; i < n; i++) place[from[i] >> (32 + shift) & mask]++;
        first_places(place, 1 << bits);
        for (int64_t i = 0; i < n; i++) to[place[from[i] >> (32 + shift) & mask]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* The same over whole keys, whose differences do not fit 32 bits. */
static void sort_wide(tg_keyed *items, tg_keyed *scratch, int64_t n, uint64_t least, uint64_t differ) {
    int bits = digit_bits(n);
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    tg_keyed *from = items, *to = scratch;
    for (int shift = 0; shift < 64; shift += bits) {
        if ((differ >> shift & mask) == 0) continue;
        int64_t place[1 << MOST_BITS];
        memset(place, 0, sizeof *place << bits);
        for (int64_t i = 0; i < n; i++) place[(from[i].key - least) >> shift & mask]++;
        first_places(place, 1 << bits);
        for (int64_t i = 0; i < n; i++) to[place[(from[i].key - least) >> shift & mask]++] = from[i];
        tg_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}

void tg_sort_keyed(tg_keyed *items, tg_keyed *scratch, int64_t n) {
    if (n <= SHORT) {
        insertion_sort(items, n);
        return;
    }
    uint64_t least = items[0].key, differ = 0;
    for (int64_t i = 1; i < n; i++) least = items[i].key < least ? items[i].key : least;
    for (int64_t i = 0; i < n; i++) differ |= items[i].key - least;
    if (differ >> 32) {
        sort_wide(items, scratch, n, least, differ);
        return;
    }
    /* Usual: float32 scores, and runtimes of one graph. Half the memory to move: pack into the two halves of
     * scratch. */
    uint64_t *packed = (uint64_t *)scratch;
    for (int64_t i = 0; i < n; i++) packed[i] = (items[i].key - least) << 32 | (uint64_t)items[i].index;
    packed = sort_packed(packed, packed + n, n, differ);
    for (int64_t i = 0; i < n; i++)
        items[i] = (tg_keyed){least + (packed[i] >> 32), (int64_t)(packed[i] & UINT32_MAX)};
}
