#include "configs/digits.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"

/* The common cases, in blocks that threads share: float32 and int8. Both return non-zero if all values are
   digits. */
enum { BLOCK = 1 << 16 };

static int from_f32(const uint8_t *from, int64_t n, int8_t *to) {
    return tg_kernel_table()->pack_digits(n, from, to);
}

static int from_i8(const uint8_t *restrict from, int64_t n, int8_t *restrict to) {
    int8_t outside = 0;
    for (int64_t i = 0; i < n; i++) {
        int8_t x = (int8_t)from[i];
        outside |= (int8_t)((int8_t)(x + 1) | (int8_t)(x + 2));
        to[i] = x;
    }
    return (outside & ~7) == 0;
}

/* Whether all n values were digits, by one of the two. */
static int all_digits(int (*convert)(const uint8_t *, int64_t, int8_t *), int size, const uint8_t *from,
                      int64_t n, int8_t *to) {
    int fine = 1;
#pragma omp parallel for schedule(static) reduction(& : fine) num_threads(tg_threads((double)n))
    for (int64_t start = 0; start < n; start += BLOCK)
        fine &= convert(from + start * size, n - start < BLOCK ? n - start : BLOCK, to + start);
    return fine;
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

/* One element as a double. Integers beyond 2^53 are rounded: they are not digits either way. */
static double value_at(tg_number type, const uint8_t *from) {
    uint8_t b[8] = {0};
    for (int i = 0; i < type.itemsize; i++) b[i] = from[type.swapped ? type.itemsize - 1 - i : i];
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    float f;
    double d;
    memcpy(&half, b, 2), memcpy(&word, b, 4), memcpy(&wide, b, 8);
    memcpy(&f, b, 4), memcpy(&d, b, 8);
    if (type.kind == 'f') return type.itemsize == 2 ? half_value(half) : type.itemsize == 4 ? (double)f : d;
    if (type.kind == 'i')
        return type.itemsize == 1   ? (double)(int8_t)b[0]
               : type.itemsize == 2 ? (double)(int16_t)half
               : type.itemsize == 4 ? (double)(int32_t)word
                                    : (double)(int64_t)wide;
    return type.itemsize == 1   ? (double)b[0]
           : type.itemsize == 2 ? (double)half
           : type.itemsize == 4 ? (double)word
                                : (double)wide;
}

int64_t tg_digits_from(tg_number type, const uint8_t *from, int64_t n, int8_t *to, double *bad) {
    if (type.kind == 'f' && type.itemsize == 4 && !type.swapped && all_digits(from_f32, 4, from, n, to))
        return -1;
    if (type.kind == 'i' && type.itemsize == 1 && all_digits(from_i8, 1, from, n, to)) return -1;
    for (int64_t i = 0; i < n; i++) {
        double x = value_at(type, from + i * type.itemsize);
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
