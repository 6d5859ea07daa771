/* Counter-based random numbers: every draw is a pure function of a key and a counter, so results do not
   depend on threads, on the order of work, or on how often a value is asked for again.
   The mixer is SplitMix64's finaliser (Steele, Lea, Flood 2014). */
#ifndef TG_RNG_H
#define TG_RNG_H

#include <stdint.h>

static inline uint64_t tg_mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A new key from a key and a label (seed, step, op number, node ...): chain it. */
static inline uint64_t tg_key(uint64_t key, uint64_t label) {
    return tg_mix64(key + 0x9e3779b97f4a7c15u * (label + 1));
}

/* Draw number `counter` under `key`: 64 uniform bits. */
static inline uint64_t tg_draw(uint64_t key, uint64_t counter) {
    return tg_mix64(key ^ tg_mix64(counter + 0x9e3779b97f4a7c15u));
}

/* Uniform in [0, 1). */
static inline double tg_uniform(uint64_t key, uint64_t counter) {
    return (double)(tg_draw(key, counter) >> 11) * 0x1p-53;
}

/* Uniform integer in [0, bound), bound >= 1, by multiplication (bias below 2^-32 for bound < 2^32). */
static inline uint64_t tg_below(uint64_t key, uint64_t counter, uint64_t bound) {
    return (uint64_t)(((unsigned __int128)tg_draw(key, counter) * bound) >> 64);
}

#endif
