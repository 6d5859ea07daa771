/* Elementary functions over vectors. Bounds, swept by tests: exp 2 ulp on [-87, 88]; sigmoid 3e-7 absolute;
   gelu 4e-7 absolute per unit of |x|; its derivative 1e-6 absolute. */
#ifndef TG_VMATH_H
#define TG_VMATH_H

#include "kernels/kernels.h"
#include "kernels/simd.h"

/* e^x: x = n ln2 + r, |r| <= ln2/2, Taylor to r^6. Clamped to [-87, 88]. */
INLINE vf vexp(vf x) {
    x = vmin(vmax(x, splat(-87.0f)), splat(88.0f));
    vf shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer in the low bits */
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

INLINE vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }

/* 0.5 + x q(u) with u = 2 (x / range)^2 - 1 in [-1, 1]: near-minimax fits of odd functions plus a half. No
   division and no exponential; |x| is clamped to the range, where the function has reached 0 or 1. */
INLINE vf half_plus_odd(vf x, float range, const float *q, int degree) {
    vf c = vmin(vmax(x, splat(-range)), splat(range));
    vf u = c * c * (2.0f / (range * range)) - 1.0f;
    vf p = splat(q[0]);
#pragma GCC unroll 20
    for (int i = 1; i <= degree; i++) p = p * u + q[i];
    return c * p + 0.5f;
}

/* x Phi(x), Phi the normal distribution function: the exact (erf) GELU. */
INLINE vf vgelu(vf x) {
    static const float q[] = {-9.702182729e-05f, 2.791399140e-04f, -3.123928198e-04f, 5.373919753e-04f,
                              -1.526361870e-03f, 3.053946262e-03f, -5.099139469e-03f, 8.316909180e-03f,
                              -1.290897448e-02f, 1.857076107e-02f, -2.501578335e-02f, 3.202662541e-02f,
                              -3.976565691e-02f, 4.964605309e-02f, -6.712675976e-02f, 1.346593438e-01f};
    return x * half_plus_odd(x, 5.25f, q, 15);
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

INLINE vf vact(int kind, vf x) {
    if (kind == TG_ACT_GELU) return vgelu(x);
    if (kind == TG_ACT_RELU) return blend(x < 0.0f, splat(0.0f), x); /* keeps NaN */
    return x;
}
INLINE vf vact_grad(int kind, vf g, vf x) {
    if (kind == TG_ACT_GELU) return g * vgelu_grad(x);
    if (kind == TG_ACT_RELU) return blend(x > 0.0f, g, splat(0.0f));
    return g;
}

/* Factor of inverted dropout for channels f .. f+TG_VF of a row: 0 or scale. The hash is a 32-bit
   multiply-xorshift finaliser keyed per row. */
INLINE vf vdropout(const tg_dropout *dropout, const uint32_t *key, int f) {
    vu lane;
    for (int i = 0; i < TG_VF; i++) lane[i] = (uint32_t)i;
    vu h = (lane + splat_u((uint32_t)f)) * 0x9e3779b1u + key[0];
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= (h >> 15) ^ key[1];
    h *= 0x846ca68bu;
    h ^= h >> 16;
    vi keep = (vi)(h >> 1) >= splat_i((int32_t)dropout->threshold);
    return blend(keep, splat(dropout->scale), splat(0.0f));
}

#endif
