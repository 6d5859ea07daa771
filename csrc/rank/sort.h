/* Stable ascending sort of 64-bit keys with the index they came from, and order-preserving keys for numbers.
   All orders in rank/ are made here; nothing else in the room compares floats or runtimes. */
#ifndef TG_SORT_H
#define TG_SORT_H

#include <stdint.h>
#include <string.h>

typedef struct tg_keyed {
    uint64_t key;
    int64_t index;
} tg_keyed;

/* Sort items (n,) by key, equal keys in the order given; scratch (n,) is overwritten. 0 <= index < 2^32. */
void tg_sort_keyed(tg_keyed *items, tg_keyed *scratch, int64_t n);

/* Keys whose unsigned order is the order of the numbers. Not for NaN. -0.0 and 0.0 get the same key. */
static inline uint64_t tg_key_i64(int64_t x) { return (uint64_t)x ^ (UINT64_C(1) << 63); }

static inline uint64_t tg_key_f64(double x) {
    uint64_t bits;
    x += 0.0; /* -0.0 becomes 0.0 */
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static inline uint64_t tg_key_f32(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? (uint32_t)~bits : bits | UINT32_C(1) << 31;
}

#endif
