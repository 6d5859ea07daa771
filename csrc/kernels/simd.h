/* Vectors of TG_VF floats with the compiler's vector extensions: one text for every instruction set.
   Only files that define TG_VF (isa_*.c) may include it. */
#ifndef TG_SIMD_H
#define TG_SIMD_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX__
#include <immintrin.h>
#endif

#ifndef TG_VF
#define TG_VF 4
#endif

#define INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * TG_VF)));
typedef int32_t vi __attribute__((vector_size(4 * TG_VF)));
typedef uint32_t vu __attribute__((vector_size(4 * TG_VF)));
typedef float vf_loose __attribute__((vector_size(4 * TG_VF), aligned(4), may_alias));

INLINE vf load(const float *p) { return *(const vf_loose *)p; }
INLINE void store(float *p, vf v) { *(vf_loose *)p = v; }
INLINE vf splat(float x) { return x - (vf){0}; }
INLINE vi splat_i(int32_t x) { return x - (vi){0}; }
INLINE vu splat_u(uint32_t x) { return x - (vu){0}; }

/* n <= TG_VF lanes; the rest reads as 0. With n a constant TG_VF these are plain loads and stores. */
INLINE vf load_n(const float *p, int n) {
    if (n == TG_VF) return load(p);
    float lanes[TG_VF] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return load(lanes);
}
INLINE void store_n(float *p, vf v, int n) {
    if (n == TG_VF) {
        store(p, v);
        return;
    }
    for (int i = 0; i < n; i++) p[i] = v[i];
}

/* mask lanes are 0 or -1, as comparisons give them */
INLINE vf blend(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
/* One instruction each, which the compiler does not find by itself. */
#if TG_VF == 16 && defined(__AVX512F__)
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
#elif TG_VF == 8 && defined(__AVX__)
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
#else
INLINE vf vmax(vf a, vf b) { return blend(a > b, a, b); }
INLINE vf vmin(vf a, vf b) { return blend(a < b, a, b); }
#endif

/* Run BODY(f, n) over F channels in strips of TG_VF, the last possibly shorter. n is a constant in full
 * strips. */
#define STRIPS(F, BODY)                                                                                      \
    do {                                                                                                     \
        int strip_ = 0;                                                                                      \
        for (; strip_ + TG_VF <= (F); strip_ += TG_VF) BODY(strip_, TG_VF);                                  \
        if (strip_ < (F)) BODY(strip_, (F) - strip_);                                                        \
    } while (0)

#endif
