/* Elementary functions over vectors. Bounds, swept by tests: exp 2 ulp on [-87, 88]; sigmoid 3e-7 absolute;
   gelu 4e-7 absolute per unit of |x|. */
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

/* Upper tail of the normal distribution at |x|, and exp(-x^2/2). Abramowitz & Stegun 7.1.26 for erfc. */
INLINE vf normal_tail(vf x, vf *bell) {
    vf a = vabs(x) * 0.70710678f;
    vf t = 1.0f / (1.0f + 0.3275911f * a);
    vf e = vexp(-a * a);
    vf p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    *bell = e;
    return 0.5f * p * t * e;
}

INLINE vf vgelu(vf x) {
    vf bell, tail = normal_tail(x, &bell);
    return x * select(x < 0.0f, tail, 1.0f - tail);
}

/* d gelu / dx = Phi(x) + x phi(x) */
INLINE vf vgelu_grad(vf x) {
    vf bell, tail = normal_tail(x, &bell);
    return select(x < 0.0f, tail, 1.0f - tail) + x * (0.39894228f * bell);
}

INLINE vf vact(int kind, vf x) {
    if (kind == TG_ACT_GELU) return vgelu(x);
    if (kind == TG_ACT_RELU) return vmax(x, splat(0.0f));
    return x;
}
INLINE vf vact_grad(int kind, vf g, vf x) {
    if (kind == TG_ACT_GELU) return g * vgelu_grad(x);
    if (kind == TG_ACT_RELU) return select(x > 0.0f, g, splat(0.0f));
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
    return select(keep, splat(dropout->scale), splat(0.0f));
}

#endif
