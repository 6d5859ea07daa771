/* Numbers of any allowed dtype to config digits of one byte. */
#include <string.h>

#include "data/npz.h"

/* The common case, written so that the compiler vectorises it: float32 of this machine's byte order. Returns
   non-zero if some value is no digit. Values are compared as floats before they are converted, so NaN and
   huge ones are safe. */
static int from_f32(const uint8_t *from, int64_t n, int8_t *to) {
    int32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, from + 4 * i, 4);
        float safe = x >= TG_DIGIT_MIN && x <= TG_DIGIT_MAX ? x : 0.5f;
        int32_t digit = (int32_t)safe;
        bad |= (float)digit != safe;
        to[i] = (int8_t)digit;
    }
    return bad;
}

static int from_i8(const uint8_t *from, int64_t n, int8_t *to) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        int8_t x = (int8_t)from[i];
        bad |= x < TG_DIGIT_MIN || x > TG_DIGIT_MAX;
        to[i] = x;
    }
    return bad;
}

static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return mantissa != 0 ? (double)__builtin_nanf("")
                             : (h >> 15 ? -(double)__builtin_inff() : (double)__builtin_inff());
    double value =
        exponent == 0 ? mantissa * 0x1p-24 : (1024 + mantissa) * __builtin_ldexp(1.0, exponent - 25);
    return h >> 15 ? -value : value;
}

/* One element as a double. Integers beyond 2^53 are rounded: they are no digits either way. */
static double value_at(const tg_npy *npy, const uint8_t *from) {
    uint8_t b[8] = {0};
    for (int i = 0; i < npy->itemsize; i++) b[i] = from[npy->swapped ? npy->itemsize - 1 - i : i];
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    float f;
    double d;
    memcpy(&half, b, 2), memcpy(&word, b, 4), memcpy(&wide, b, 8);
    memcpy(&f, b, 4), memcpy(&d, b, 8);
    if (npy->kind == 'f') return npy->itemsize == 2 ? half_value(half) : npy->itemsize == 4 ? (double)f : d;
    if (npy->kind == 'i')
        return npy->itemsize == 1   ? (double)(int8_t)b[0]
               : npy->itemsize == 2 ? (double)(int16_t)half
               : npy->itemsize == 4 ? (double)(int32_t)word
                                    : (double)(int64_t)wide;
    return npy->itemsize == 1   ? (double)b[0]
           : npy->itemsize == 2 ? (double)half
           : npy->itemsize == 4 ? (double)word
                                : (double)wide;
}

int64_t tg_digits_from(const tg_npy *npy, const uint8_t *from, int64_t n, int8_t *to, double *bad) {
    if (npy->kind == 'f' && npy->itemsize == 4 && !npy->swapped && !from_f32(from, n, to)) return -1;
    if (npy->kind == 'i' && npy->itemsize == 1 && !from_i8(from, n, to)) return -1;
    for (int64_t i = 0; i < n; i++) {
        double x = value_at(npy, from + i * npy->itemsize);
        int fits = x >= TG_DIGIT_MIN && x <= TG_DIGIT_MAX;
        int digit = fits ? (int)x : 0;
        if (!fits || (double)digit != x) {
            *bad = x;
            return i;
        }
        to[i] = (int8_t)digit;
    }
    return -1;
}

tg_status tg_bad_digit(tg_error *err, const char *field, int64_t index, int64_t nodes, double value) {
    int64_t per_row = nodes * TG_DIGITS;
    return tg_bad_field(err, field, "digits that are whole numbers in -1..5",
                        "drop this config or measure it again", "%g at row %lld, node %lld, column %lld",
                        value, (long long)(index / per_row), (long long)(index % per_row / TG_DIGITS),
                        (long long)(index % TG_DIGITS));
}
