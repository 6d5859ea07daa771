#include "configs/digits.h"

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

int64_t tg_digits_from(tg_number type, const uint8_t *from, int64_t n, int8_t *to, double *bad) {
    if (type.kind == 'f' && type.itemsize == 4 && !type.swapped && all_digits(from_f32, 4, from, n, to))
        return -1;
    if (type.kind == 'i' && type.itemsize == 1 && all_digits(from_i8, 1, from, n, to)) return -1;
    for (int64_t i = 0; i < n; i++) {
        double x = tg_number_at(type, from + i * type.itemsize);
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

int64_t tg_digits_within(tg_number type, const uint8_t *from, int64_t n, int columns, const int32_t *values,
                         int8_t *to) {
    int column = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = tg_number_at(type, from + i * type.itemsize);
        const int fits = x >= TG_DIGIT_MIN && x < values[column];
        const int digit = fits ? (int)x : 0;
        if (!fits || (double)digit != x) return i;
        to[i] = (int8_t)digit;
        column = column + 1 < columns ? column + 1 : 0;
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
