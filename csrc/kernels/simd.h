/* Vectors of TG_VF floats with the compiler's vector extensions: one text for every instruction set.
   Only files that define TG_VF (isa_*.c) may include it. */
#ifndef TG_SIMD_H
#define TG_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifndef TG_VF
#define TG_VF 4
#endif

#define INLINE static inline __attribute__((always_inline, unused))
/* Of what is called in several places and long: a library that is to be small has it once. */
#ifdef TG_SCORES_ONLY
#define LONG static __attribute__((noinline, unused))
#else
#define LONG INLINE
#endif

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
#if TG_VF == 16 && defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float lanes[TG_VF] = {0};
    for (int i = 0; i < n; i++) lanes[i] = p[i];
    return load(lanes);
#endif
}
INLINE vf load_or(const float *p, float otherwise, const int n) {
    return p == NULL ? splat(otherwise) : load_n(p, n);
}
INLINE void store_n(float *p, vf v, int n) {
    if (n == TG_VF) {
        store(p, v);
        return;
    }
#if TG_VF == 16 && defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int i = 0; i < n; i++) p[i] = v[i];
#endif
}

/* To an aligned place, past the caches; other threads see it after a fence. */
INLINE void store_past(float *p, vf v) {
#if TG_VF == 16 && defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif TG_VF == 8 && defined(__AVX__)
    _mm256_stream_ps(p, (__m256)v);
#elif TG_VF == 4 && defined(__SSE2__)
    _mm_stream_ps(p, (__m128)v);
#else
    store(p, v);
#endif
}
INLINE void fence(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* The first n <= TG_VF lanes of v, or of p + v with add. */
INLINE void store_some(float *p, vf v, int n, int add) { store_n(p, add ? load_n(p, n) + v : v, n); }

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

#if TG_VF == 16 && defined(__AVX512F__)
INLINE vi vmax_i(vi a, vi b) { return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b); }
INLINE int32_t vtop_i(vi v) { return _mm512_reduce_max_epi32((__m512i)v); }
#else
INLINE vi vmax_i(vi a, vi b) { return (a & (a > b)) | (b & ~(a > b)); }
/* the largest lane */
INLINE int32_t vtop_i(vi v) {
    int32_t top = v[0];
    for (int i = 1; i < TG_VF; i++) top = v[i] > top ? v[i] : top;
    return top;
}
#endif

/* the sum of the lanes, halves on halves */
INLINE float vsum(vf v) {
    float x[TG_VF];
    store(x, v);
#pragma GCC unroll 4
    for (int half = TG_VF / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

/* to the nearest integer, halves to even; INT32_MIN for what does not fit */
INLINE vi vround(vf x) {
#if TG_VF == 16 && defined(__AVX512F__)
    return (vi)_mm512_cvtps_epi32((__m512)x);
#elif TG_VF == 8 && defined(__AVX__)
    return (vi)_mm256_cvtps_epi32((__m256)x);
#elif TG_VF == 4 && defined(__SSE2__)
    return (vi)_mm_cvtps_epi32((__m128)x);
#else
    vi y;
    for (int i = 0; i < TG_VF; i++) y[i] = x[i] > -2e9f && x[i] < 2e9f ? (int32_t)rintf(x[i]) : INT32_MIN;
    return y;
#endif
}

/* Lane j is lane index[j] of a followed by b. index must be a constant once everything is inlined. */
INLINE vf shuffle2(vf a, vf b, vi index) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shuffle)
    return __builtin_shuffle(a, b, index);
#endif
#endif
    vf y = a;
    for (int j = 0; j < TG_VF; j++) y[j] = index[j] < TG_VF ? a[index[j]] : b[index[j] - TG_VF];
    return y;
}

#if TG_VF == 16
#define TG_LANES ((vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif TG_VF == 8
#define TG_LANES ((vi){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define TG_LANES ((vi){0, 1, 2, 3})
#endif

/* Exchange of the off-diagonal s x s blocks of every 2s x 2s block. */
INLINE void transpose_step(vf *r, const int s) {
    const vi odd = (TG_LANES & splat_i(s)) != 0;
    const vi lo = TG_LANES + (odd & splat_i(TG_VF - s)), hi = TG_LANES + (odd & splat_i(TG_VF - s)) + s;
#pragma GCC unroll 16
    for (int i = 0; i < TG_VF; i++)
        if ((i & s) == 0) {
            const vf a = r[i], b = r[i + s];
            r[i] = shuffle2(a, b, lo);
            r[i + s] = shuffle2(a, b, hi);
        }
}

/* r: TG_VF vectors, a square of 32-bit words, transposed in place. */
INLINE void transpose(vf *r) {
    transpose_step(r, 1);
    transpose_step(r, 2);
    if (TG_VF > 4) transpose_step(r, TG_VF > 4 ? 4 : 1);
    if (TG_VF > 8) transpose_step(r, TG_VF > 8 ? 8 : 1);
}

/* Of rows r[0 .. count): pairs become one, of which each lane has half of one of the two. */
INLINE void fold_step(vf *r, const int count, const int s) {
    const vi odd = (TG_LANES & splat_i(s)) != 0;
    const vi lo = TG_LANES + (odd & splat_i(TG_VF - s)), hi = lo + s;
#pragma GCC unroll 16
    for (int i = 0; i < count; i += 2 * s) r[i] = shuffle2(r[i], r[i + s], lo) + shuffle2(r[i], r[i + s], hi);
}

/* Lane j: the sum of the lanes of r[j], of TG_VF vectors, which are overwritten: they are transposed while they are
   added up. */
INLINE vf sum_each(vf *r) {
    fold_step(r, TG_VF, 1);
    fold_step(r, TG_VF, 2);
    if (TG_VF > 4) fold_step(r, TG_VF, TG_VF > 4 ? 4 : 1);
    if (TG_VF > 8) fold_step(r, TG_VF, TG_VF > 8 ? 8 : 1);
    return r[0];
}

/* The same of four vectors, in the first four lanes. */
INLINE vf sum_each_of_four(vf *r) {
    fold_step(r, 4, 1);
    fold_step(r, 4, 2);
    if (TG_VF > 4) r[0] += shuffle2(r[0], r[0], TG_LANES ^ (TG_VF > 4 ? 4 : 0));
    if (TG_VF > 8) r[0] += shuffle2(r[0], r[0], TG_LANES ^ (TG_VF > 8 ? 8 : 0));
    return r[0];
}

/* v in its first n lanes, 0 in the others */
INLINE vf first_n(vf v, int n) { return n == TG_VF ? v : (vf)((vi)v & (TG_LANES < splat_i(n))); }

/* Run BODY(f, n) over F channels in strips of TG_VF, the last possibly shorter. n is a constant in full
 * strips. */
#define STRIPS(F, BODY)                                                                                      \
    do {                                                                                                     \
        int strip_ = 0;                                                                                      \
        for (; strip_ + TG_VF <= (F); strip_ += TG_VF) BODY(strip_, TG_VF);                                  \
        if (strip_ < (F)) BODY(strip_, (F) - strip_);                                                        \
    } while (0)

#endif
