#include "base/numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) return mantissa != 0 ? (double)NAN : (h >> 15 ? -(double)INFINITY : (double)INFINITY);
    double value =
        exponent == 0 ? mantissa * 0x1p-24 : (1024 + mantissa) * __builtin_ldexp(1.0, exponent - 25);
    return h >> 15 ? -value : value;
}

double tg_number_at(tg_number type, const uint8_t *from) {
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

/* Run `loop` with the C type of the numbers. Halves are read one by one. */
#define BY_TYPE(type, loop)                                                                                  \
    do {                                                                                                     \
        const int size = (type).itemsize;                                                                    \
        if ((type).kind == 'f') {                                                                            \
            if (size == 4) loop(float);                                                                      \
            else if (size == 8) loop(double);                                                                \
        } else if ((type).kind == 'i') {                                                                     \
            if (size == 1) loop(int8_t);                                                                     \
            else if (size == 2) loop(int16_t);                                                               \
            else if (size == 4) loop(int32_t);                                                               \
            else loop(int64_t);                                                                              \
        } else {                                                                                             \
            if (size == 1) loop(uint8_t);                                                                    \
            else if (size == 2) loop(uint16_t);                                                              \
            else if (size == 4) loop(uint32_t);                                                              \
            else loop(uint64_t);                                                                             \
        }                                                                                                    \
    } while (0)

#define CAST(T)                                                                                              \
    do {                                                                                                     \
        const T *x = from;                                                                                   \
        for (int64_t i = 0; i < n; i++) to[i] = CAST_TO x[i];                                                \
    } while (0)

static int is_half(tg_number type) { return type.kind == 'f' && type.itemsize == 2; }

int64_t tg_floats_from(tg_number type, const void *from, int64_t n, float *to) {
    if (is_half(type))
        for (int64_t i = 0; i < n; i++) to[i] = (float)half_value(((const uint16_t *)from)[i]);
    else if (to != from) {
#define CAST_TO (float)
        BY_TYPE(type, CAST);
#undef CAST_TO
    }
    int fine = 1;
    for (int64_t i = 0; i < n; i++) fine &= fabsf(to[i]) <= FLT_MAX;
    for (int64_t i = 0; !fine && i < n; i++)
        if (!(fabsf(to[i]) <= FLT_MAX)) return i;
    return -1;
}

void tg_doubles_from(tg_number type, const void *from, int64_t n, double *to) {
    if (is_half(type))
        for (int64_t i = 0; i < n; i++) to[i] = half_value(((const uint16_t *)from)[i]);
    else if (to != from) {
#define CAST_TO (double)
        BY_TYPE(type, CAST);
#undef CAST_TO
    }
}

int64_t tg_whole_from(tg_number type, const void *from, int64_t n, int64_t *to) {
    if (type.kind == 'f') {
        for (int64_t i = 0; i < n; i++) {
            const double x = tg_number_at(type, (const uint8_t *)from + i * type.itemsize);
            if (!(x >= -0x1p63 && x < 0x1p63 && floor(x) == x)) return i;
            to[i] = (int64_t)x;
        }
        return -1;
    }
    if (type.kind == 'u' && type.itemsize == 8)
        for (int64_t i = 0; i < n; i++)
            if (((const uint64_t *)from)[i] > INT64_MAX) return i;
    if (to != from) {
#define CAST_TO (int64_t)
        BY_TYPE(type, CAST);
#undef CAST_TO
    }
    return -1;
}
