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

enum { MOST_PASSES = 4 };

/* Passes over n offsets of `width` bits that cost the least: each moves all of them and walks through its table. */
static int cheapest_passes(int64_t n, int width) {
    int best = 0;
    int64_t least = INT64_MAX;
    for (int passes = (width + MOST_BITS - 1) / MOST_BITS; passes <= MOST_PASSES; passes++) {
        const int64_t cost = passes * (3 * n + ((int64_t)1 << (width + passes - 1) / passes));
        if (cost < least) least = cost, best = passes;
    }
    return best;
}

/* places (passes,) of 2^bits = how many of packed (n,) have each digit. `passes` is a constant at every call. */
static inline __attribute__((always_inline)) void
count_digits(const uint64_t *packed, int64_t n, int bits, int passes, uint32_t (*places)[1 << MOST_BITS]) {
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < passes; pass++) places[pass][packed[i] >> (32 + pass * bits) & mask]++;
}

/* Least-significant-digit radix sort of packed (n,) = offset << 32 | number by offset, in `to` and `from`. The
   offsets have `width` bits, 0..32. Returns whichever of the two arrays is sorted. */
static uint64_t *sort_packed(uint64_t *from, uint64_t *to, int64_t n, int width) {
    if (width == 0) return from;
    const int passes = cheapest_passes(n, width), bits = (width + passes - 1) / passes;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint32_t places[MOST_PASSES][1 << MOST_BITS];
    for (int pass = 0; pass < passes; pass++) memset(places[pass], 0, sizeof places[0][0] << bits);
    switch (passes) {
    case 1: count_digits(from, n, bits, 1, places); break;
    case 2: count_digits(from, n, bits, 2, places); break;
    case 3: count_digits(from, n, bits, 3, places); break;
    default: count_digits(from, n, bits, 4, places);
    }
    for (int pass = 0; pass < passes; pass++) {
        uint32_t *place = places[pass], sum = 0;
        for (int value = 0; value < 1 << bits; value++) {
            uint32_t count = place[value];
            place[value] = sum;
            sum += count;
        }
        const int shift = 32 + pass * bits;
        for (int64_t i = 0; i < n; i++) to[place[from[i] >> shift & mask]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static int width_of(uint64_t differ) { return differ == 0 ? 0 : 64 - __builtin_clzll(differ); }

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
    packed = sort_packed(packed, packed + n, n, width_of(differ));
    for (int64_t i = 0; i < n; i++)
        items[i] = (tg_keyed){least + (packed[i] >> 32), (int64_t)(packed[i] & UINT32_MAX)};
}

/* A run of packed (n,) with one offset, put in order by the `shift` lower bits of key - least, which it lacks. */
static void sort_run(uint64_t *run, uint64_t *scratch, int64_t n, const uint64_t *keys, uint64_t least,
                     int shift) {
    if (n <= SHORT) {
        for (int64_t i = 1; i < n; i++) {
            uint64_t item = run[i], key = keys[(uint32_t)item];
            int64_t j = i;
            for (; j > 0 && keys[(uint32_t)run[j - 1]] > key; j--) run[j] = run[j - 1];
            run[j] = item;
        }
        return;
    }
    const uint64_t offset = run[0] >> 32 << 32, mask = (UINT64_C(1) << shift) - 1;
    for (int64_t i = 0; i < n; i++)
        run[i] = ((keys[(uint32_t)run[i]] - least) & mask) << 32 | (uint32_t)run[i];
    const uint64_t *sorted = sort_packed(run, scratch, n, shift);
    for (int64_t i = 0; i < n; i++) run[i] = offset | (uint32_t)sorted[i];
}

tg_order tg_sort_order(const uint64_t *keys, int64_t n, uint64_t *scratch) {
    uint64_t least = n > 0 ? keys[0] : 0, most = least;
    for (int64_t i = 1; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
    }
    const int width = width_of(most - least), shift = width > 32 ? width - 32 : 0;
    for (int64_t i = 0; i < n; i++) scratch[i] = (keys[i] - least) >> shift << 32 | (uint64_t)i;
    uint64_t *sorted = sort_packed(scratch, scratch + n, n, width - shift);
    uint64_t *spare = sorted == scratch ? scratch + n : scratch;
    for (int64_t first = 0, end; shift > 0 && first < n; first = end) {
        for (end = first + 1; end < n && sorted[end] >> 32 == sorted[first] >> 32;) end++;
        if (end - first > 1) sort_run(sorted + first, spare, end - first, keys, least, shift);
    }
    return (tg_order){sorted, spare, shift > 0 ? keys : NULL};
}
