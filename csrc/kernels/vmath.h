/* Elementary functions over vectors. Bounds, swept by tests: exp 2 ulp on [-87, 88]; sigmoid 3e-7 absolute;
   gelu 4e-7 absolute per unit of |x|; its derivative 1e-6 absolute. NaN stays NaN; infinities give the limits.
   AVX-512 looks up the coefficients of piecewise polynomials by permutes, which run in parallel with the FMAs; elsewhere
   one polynomial of higher degree serves the whole range.
   `rough`, for passes whose products round their operands to eight bits, cuts the polynomials of AVX-512 short:
   exp 6e-5 relative, sigmoid 2e-5, gelu 6e-5 |x|, its derivative 2.2e-4; bfloat16 rounds by up to 2e-3. */
#ifndef TG_VMATH_H
#define TG_VMATH_H

#include "kernels/kernels.h"
#include "kernels/simd.h"

typedef struct value_slope {
    vf value, slope;
} value_slope;

#if TG_VF == 16 && defined(__AVX512F__)

#include "kernels/vmath_tables.h"

INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }
INLINE vf lookup32(const float *table, vi index) {
    return (vf)_mm512_permutex2var_ps((__m512)load(table), (__m512i)index, (__m512)load(table + 16));
}

/* Where v >= 0 lies among the 32 segments around the multiples of 1 (of 1/2). Adding 1.5 * 2^23 (or 2^22) leaves
   the rounded number in the low bits: the permute looks at five of them. FMAs and permutes are the bottleneck,
   additions cost nothing extra. */
typedef struct segment {
    vf v, t; /* the place in the segment: v less the rounded v */
    vi index;
} segment;
INLINE segment locate(vf v, float magic) {
    vf shifted = v + magic;
    return (segment){v, v - (shifted - magic), (vi)shifted};
}
/* min returns its second operand when one is NaN */
INLINE segment locate_gelu(vf x) { return locate(vmin(splat(31.0f), vabs(x) * (31 / 5.75f)), 12582912.0f); }
INLINE segment locate_sigmoid(vf x) { return locate(vmin(splat(15.5f), vabs(x)), 6291456.0f); }
INLINE vf piecewise(const float table[][32], int degree, segment s) {
    vf p = lookup32(table[degree], s.index);
#pragma GCC unroll 8
    for (int i = degree - 1; i >= 0; i--) p = p * s.t + lookup32(table[i], s.index);
    return p;
}
/* 1/2 + p with the sign of x: p is half a distribution function, for |x| */
INLINE vf half_plus_signed(vf p, vf x) {
    return (vf)_mm512_ternarylogic_epi32((__m512i)p, (__m512i)x, _mm512_set1_epi32(INT32_MIN), 0x78) + 0.5f;
}

/* e^x for x <= 0, never below e^-87.3: x = (32 k + j)/32 ln2 + r, |r| <= ln2/64; a quadratic in r is exact to
   6e-8. The float nearest ln2 is so close to it that one step of reduction suffices. */
INLINE vf vexp_negative(const int rough, vf x) {
    x = vmax(splat(-87.3f), x);
    vf shifted = x * 1.44269504f + 393216.0f; /* 1.5 * 2^18: rounds to multiples of 1/32 */
    /* an FMA also where the compiler does not contract: the product must not be rounded */
    vf r = (vf)_mm512_fnmadd_ps((__m512)(shifted - 393216.0f), _mm512_set1_ps(0.693147181f), (__m512)x);
    vi step = (vi)_mm512_permutex2var_epi32(_mm512_load_si512(exp_steps), (__m512i)shifted,
                                            _mm512_load_si512(exp_steps + 16));
    vf power = (vf)(step + ((vi)shifted << 18));
    return power * (rough ? r : r * (r * 0.50000053f + 1.00001465f)) + power;
}
INLINE vf vexp(vf x) { return vexp_negative(0, vmin(splat(88.0f), x)); }

INLINE vf vsigmoid(const int rough, vf x) {
    return half_plus_signed(piecewise(sigmoid_half, rough ? 3 : 4, locate_sigmoid(x)), x);
}

/* x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), Phi the normal distribution function: the exact (erf) GELU. */
INLINE vf gelu_at(const int rough, vf x, segment s) {
    return vmax(splat(0.0f), x) - s.v * piecewise(gelu_tail, rough ? 2 : 3, s);
}
/* d gelu / dx = Phi(x) + x phi(x) */
INLINE vf gelu_slope_at(const int rough, vf x, segment s) {
    return half_plus_signed(piecewise(gelu_slope, rough ? 2 : 4, s), x);
}

INLINE vf vgelu(const int rough, vf x) { return gelu_at(rough, x, locate_gelu(x)); }
INLINE vf vgelu_grad(vf x) { return gelu_slope_at(0, x, locate_gelu(x)); }
INLINE value_slope vgelu_both(const int rough, vf x) {
    const segment s = locate_gelu(x);
    return (value_slope){gelu_at(rough, x, s), gelu_slope_at(rough, x, s)};
}

#else

/* e^x: x = n ln2 + r, |r| <= ln2/2, Taylor to r^6. Clamped to [-87, 88]. */
INLINE vf vexp(vf x) {
    x = vmin(splat(88.0f), vmax(splat(-87.0f), x)); /* in this order NaN passes */
    vf shifted = x * 1.44269504f + 12582912.0f;     /* 1.5 * 2^23: rounds to an integer in the low bits */
    vf n = shifted - 12582912.0f;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = r * (1.0f / 720) + (1.0f / 120);
    p = p * r + (1.0f / 24);
    p = p * r + (1.0f / 6);
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23)); /* only the integer's low bits survive the shift */
}

INLINE vf vsigmoid(const int rough, vf x) {
    (void)rough;
    return 1.0f / (1.0f + vexp(-x));
}

/* 0.5 + x q(u) with u = 2 (x / range)^2 - 1 in [-1, 1]: near-minimax fits of odd functions plus a half. No
   division and no exponential; |x| is clamped to the range, where the function has reached 0 or 1. */
INLINE vf half_plus_odd(vf x, float range, const float *q, int degree) {
    vf c = vmin(splat(range), vmax(splat(-range), x));
    vf u = c * c * (2.0f / (range * range)) - 1.0f;
    vf p = splat(q[0]);
#pragma GCC unroll 20
    for (int i = 1; i <= degree; i++) p = p * u + q[i];
    return c * p + 0.5f;
}

/* x Phi(x), Phi the normal distribution function: the exact (erf) GELU. */
INLINE vf vgelu(const int rough, vf x) {
    (void)rough;
    static const float q[] = {-9.702182729e-05f, 2.791399140e-04f, -3.123928198e-04f, 5.373919753e-04f,
                              -1.526361870e-03f, 3.053946262e-03f, -5.099139469e-03f, 8.316909180e-03f,
                              -1.290897448e-02f, 1.857076107e-02f, -2.501578335e-02f, 3.202662541e-02f,
                              -3.976565691e-02f, 4.964605309e-02f, -6.712675976e-02f, 1.346593438e-01f};
    const vf c = vmin(splat(5.25f), vmax(splat(-5.25f), x));
    return c * half_plus_odd(c, 5.25f, q, 15) + vmax(splat(0.0f), x - 5.25f);
}

/* d gelu / dx = Phi(x) + x phi(x) */
INLINE vf vgelu_grad(vf x) {
    static const float q[] = {-9.518873544e-04f, 2.602245760e-03f, -1.926998262e-03f, 2.243985821e-03f,
                              -9.786094438e-03f, 1.928402985e-02f, -2.642765639e-02f, 3.745138356e-02f,
                              -5.291265313e-02f, 6.599211084e-02f, -7.324480921e-02f, 7.406436721e-02f,
                              -6.876196561e-02f, 6.033516310e-02f, -5.373572170e-02f, 5.366434800e-02f,
                              -6.573986945e-02f, 1.287592151e-01f};
    return half_plus_odd(x, 5.5f, q, 17);
}

INLINE vf vexp_negative(const int rough, vf x) {
    (void)rough;
    return vexp(x);
}
INLINE value_slope vgelu_both(const int rough, vf x) { return (value_slope){vgelu(rough, x), vgelu_grad(x)}; }

#endif

/* Small |x|, where the closed forms of tanh and ELU cancel. */
INLINE vf vtanh(vf x) {
    const vf s = vsigmoid(0, x + x), u = x * x;
    const vi small = u < 1.6e-3f;
    return blend(small, x * (1.0f + u * (-1.0f / 3.0f + u * (2.0f / 15.0f))), s + s - 1.0f);
}
INLINE vf velu(vf x) { /* in this order of min, NaN passes */
    const vf low = vmin(splat(0.0f), x), far = vexp(low) - 1.0f;
    const vf near = low * (1.0f + low * (0.5f + low * (1.0f / 6.0f + low * (1.0f / 24.0f))));
    return blend(x > 0.0f, x, blend(low > -0.04f, near, far));
}

/* Activations that are not worth their place in the loops of every op: these call them. */
INLINE vf vact_rare(int kind, vf x) {
    if (kind == TG_ACT_LEAKY) return blend(x < 0.0f, x * 0.01f, x);
    if (kind == TG_ACT_ELU) return velu(x);
    if (kind == TG_ACT_SILU) return x * vsigmoid(0, x);
    if (kind == TG_ACT_SIGMOID) return vsigmoid(0, x);
    return vtanh(x);
}
INLINE vf vact_rare_slope(int kind, vf x) {
    if (kind == TG_ACT_LEAKY) return blend(x > 0.0f, splat(1.0f), splat(0.01f));
    if (kind == TG_ACT_ELU) return blend(x > 0.0f, splat(1.0f), vexp(vmin(splat(0.0f), x)));
    if (kind == TG_ACT_TANH) return 1.0f - vtanh(x) * vtanh(x);
    const vf s = vsigmoid(0, x);
    return kind == TG_ACT_SILU ? s * (1.0f + x * (1.0f - s)) : s * (1.0f - s);
}
static __attribute__((noinline, unused)) vf vact_other(int kind, vf x) { return vact_rare(kind, x); }
static __attribute__((noinline, unused)) vf vact_other_slope(int kind, vf x) {
    return vact_rare_slope(kind, x);
}

LONG vf vact(const int rough, int kind, vf x) {
    if (kind == TG_ACT_GELU) return vgelu(rough, x);
    if (kind == TG_ACT_RELU) return blend(x < 0.0f, splat(0.0f), x); /* keeps NaN */
    return kind == TG_ACT_NONE ? x : vact_other(kind, x);
}
INLINE vf vact_grad(int kind, vf g, vf x) {
    if (kind == TG_ACT_GELU) return g * vgelu_grad(x);
    if (kind == TG_ACT_RELU) return blend(x > 0.0f, g, splat(0.0f));
    return kind == TG_ACT_NONE ? g : g * vact_other_slope(kind, x);
}

INLINE value_slope vact_both(const int rough, int kind, vf x) {
    if (kind == TG_ACT_GELU) return vgelu_both(rough, x);
    return (value_slope){vact(rough, kind, x), vact_grad(kind, splat(1.0f), x)};
}

/* Inverted dropout. Row keys are 64 well-mixed bits, so one product of a row's half-keys with numbers of the
   channel decides an element: h = (f A + k0) * ((mixed f ^ k1) | 1), uniform since the second factor is odd.
   Decisions over channels, rows and steps pass for independent (tests). The channel's numbers do not depend on
   the row: the compiler takes them out of a loop over rows. */
INLINE vu vdropout_hash(const uint32_t *key, int f) {
    vu lane;
    for (int i = 0; i < TG_VF; i++) lane[i] = (uint32_t)i;
    const vu channel = lane + splat_u((uint32_t)f);
    vu mixed = (channel + 1u) * 0x85ebca6bu;
    mixed = (mixed ^ (mixed >> 15)) * 0xc2b2ae35u;
    return (channel * 0x9e3779b1u + key[0]) * ((mixed ^ key[1]) | 1u);
}

/* The factor, 0 or scale, of channels f .. f+TG_VF of the row with this key. */
#if TG_VF == 16 && defined(__AVX512F__)
INLINE vf vdropout(const tg_dropout *dropout, const uint32_t *key, int f) {
    const __m512i least = _mm512_set1_epi32((int)(dropout->threshold * 2));
    const __mmask16 keep = _mm512_cmpge_epu32_mask((__m512i)vdropout_hash(key, f), least);
    return (vf)_mm512_maskz_mov_ps(keep, _mm512_set1_ps(dropout->scale));
}
#else
INLINE vf vdropout(const tg_dropout *dropout, const uint32_t *key, int f) {
    const vi keep = (vi)(vdropout_hash(key, f) >> 1) >= splat_i((int32_t)dropout->threshold);
    return (vf)(keep & (vi)splat(dropout->scale));
}
#endif

#endif
