#include "io/crc.h"

#include <pthread.h>
#include <string.h>

/* How many bytes go at once; one where the library is to be small (TG_SCORES_ONLY). */
#ifdef TG_SCORES_ONLY
#define AT_ONCE 1
#else
#define AT_ONCE 8
#endif

static uint32_t table[AT_ONCE][256];

/* table[k][b]: remainder of byte b followed by k zero bytes. */
static void make_tables(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int i = 0; i < 8; i++) r = (r >> 1) ^ (0xEDB88320u & (0u - (r & 1)));
        table[0][b] = r;
    }
    for (int k = 1; k < AT_ONCE; k++)
        for (int b = 0; b < 256; b++) table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 255];
}

static void ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
}

/* `state` is the complemented CRC. */
static uint32_t by_tables(uint32_t state, const uint8_t *p, size_t n) {
#if AT_ONCE == 8
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low =
            state ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        state = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
                table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
#endif
    for (; n > 0; p++, n--) state = (state >> 8) ^ table[0][(state ^ *p) & 255];
    return state;
}

uint32_t tg_crc32_tables(uint32_t crc, const uint8_t *data, size_t n) {
    ready();
    return ~by_tables(~crc, data, n);
}

#if defined(__x86_64__) && AT_ONCE == 8
#define FOLDS 1
#include <immintrin.h>

/* Move a 128-bit remainder `x` forward over the bits that `k` stands for and add what is there. */
__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i x, __m128i k, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, k, 0x00), high = _mm_clmulepi64_si128(x, k, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Four folded lanes over whole 64-byte blocks (Gopal et al. 2009, "Fast CRC computation using PCLMULQDQ").
   The last 16 bytes of remainder go through the tables: simpler than a Barrett reduction, and done once.
   n >= 64 and a multiple of 16. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t by_folding(uint32_t state, const uint8_t *p,
                                                                    size_t n) {
    const __m128i by64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4),
                  by16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    __m128i lane[4];
    for (int i = 0; i < 4; i++) lane[i] = _mm_loadu_si128((const __m128i *)(p + 16 * i));
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)state));
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64)
        for (int i = 0; i < 4; i++)
            lane[i] = fold(lane[i], by64, _mm_loadu_si128((const __m128i *)(p + 16 * i)));
    __m128i x = lane[0];
    for (int i = 1; i < 4; i++) x = fold(x, by16, lane[i]);
    for (; n > 0; p += 16, n -= 16) x = fold(x, by16, _mm_loadu_si128((const __m128i *)p));
    uint8_t rest[16];
    memcpy(rest, &x, sizeof rest);
    return by_tables(0, rest, sizeof rest);
}

static int can_fold(void) {
    static _Atomic int known; /* 0: not asked yet, 1: no, 2: yes */
    if (known == 0) known = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") ? 2 : 1;
    return known == 2;
}
#endif

uint32_t tg_crc32(uint32_t crc, const uint8_t *data, size_t n) {
    ready();
    uint32_t state = ~crc;
#ifdef FOLDS
    if (n >= 128 && can_fold()) {
        size_t whole = n & ~(size_t)15;
        state = by_folding(state, data, whole);
        data += whole, n -= whole;
    }
#endif
    return ~by_tables(state, data, n);
}
