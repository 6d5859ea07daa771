#include "io/blake2b.h"

#include <string.h>

static const uint64_t IV[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

/* Which words of the block a round mixes in; the last two rounds are the first two again. */
static const uint8_t SIGMA[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t turn(uint64_t x, int by) { return x >> by | x << (64 - by); }

static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = turn(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = turn(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = turn(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turn(v[b] ^ v[c], 63);
}

static void compress(tg_blake2b *s, int last) {
    uint64_t v[16], m[16];
    memcpy(m, s->block, sizeof m); /* little-endian, as all machines that this builds for */
    memcpy(v, s->h, sizeof s->h);
    memcpy(v + 8, IV, sizeof IV);
    v[12] ^= s->count;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const uint8_t *k = SIGMA[round % 10];
        for (int i = 0; i < 4; i++) mix(v, i, 4 + i, 8 + i, 12 + i, m[k[2 * i]], m[k[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[k[8 + 2 * i]], m[k[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) s->h[i] ^= v[i] ^ v[8 + i];
}

tg_blake2b tg_blake2b_of(size_t size) {
    tg_blake2b s = {.size = size};
    memcpy(s.h, IV, sizeof IV);
    s.h[0] ^= 0x01010000u ^ size;
    return s;
}

void tg_blake2b_add(tg_blake2b *s, const void *data, size_t n) {
    const uint8_t *from = data;
    while (n > 0) {
        /* Only when more follows: the last block is compressed in another way. */
        if (s->used == sizeof s->block) {
            s->count += sizeof s->block;
            s->used = 0;
            compress(s, 0);
        }
        const size_t room = sizeof s->block - s->used, some = n < room ? n : room;
        memcpy(s->block + s->used, from, some);
        s->used += some, from += some, n -= some;
    }
}

void tg_blake2b_end(tg_blake2b *s, uint8_t *digest) {
    s->count += s->used;
    memset(s->block + s->used, 0, sizeof s->block - s->used);
    compress(s, 1);
    memcpy(digest, s->h, s->size);
}
