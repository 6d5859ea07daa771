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

/* The order of keys (n,), equal ones by number. */
typedef struct tg_order {
    const uint64_t *packed; /* (n,): upper bits of the offset << 32 | number of the key */
    uint64_t *spare;        /* (n,): free for other use */
    const uint64_t *keys;   /* NULL if the upper bits are all there are */
} tg_order;

/* keys (n,), n < 2^32; scratch (2n,) holds the result. */
tg_order tg_sort_order(const uint64_t *keys, int64_t n, uint64_t *scratch);

static inline uint32_t tg_order_at(const tg_order *order, int64_t place) {
    return (uint32_t)order->packed[place];
}
/* Whether two places next to each other hold equal keys. */
static inline int tg_order_tied(const tg_order *order, int64_t p, int64_t q) {
    if (order->packed[p] >> 32 != order->packed[q] >> 32) return 0;
    return order->keys == NULL || order->keys[tg_order_at(order, p)] == order->keys[tg_order_at(order, q)];
}

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
