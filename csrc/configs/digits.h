/* Config digits, one byte each, from numbers of any type (digits.c). */
#ifndef TG_DIGITS_H
#define TG_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/numbers.h"
#include "base/status.h"
#include "features/schema.h"

/* to(n) = from(n) stored as `type` says, each integral and in -1..5. Returns the index of the first that is
   not, and its value in *bad, or -1. */
int64_t tg_digits_from(tg_number type, const uint8_t *from, int64_t n, int8_t *to, double *bad);

/* The same for digits of a schema: column c of `columns` has values in -1..values[c]-1, at most 127. Returns the
   index of the first that is not, or -1. */
int64_t tg_digits_within(tg_number type, const uint8_t *from, int64_t n, int columns, const int32_t *values,
                         int8_t *to);

/* The error for digit `index` of a (C,K,18) array. */
tg_status tg_bad_digit(tg_error *err, const char *field, int64_t index, int64_t nodes, double value);

/* Takes the next digits (n), each in -1..5. `*stop` = 1 ends the work early without an error. */
typedef tg_status (*tg_digit_sink)(void *context, const int8_t *digits, int64_t n, int *stop, tg_error *err);

#define TG_DIGIT_PIECE (16 << 10) /* most digits that a sink gets at once */

#endif
