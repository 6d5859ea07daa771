/* Config digits, one byte each, from numbers of any type (digits.c). */
#ifndef TG_DIGITS_H
#define TG_DIGITS_H

#include "io/npy.h"
#include "features/schema.h"

/* to(n) = from(n) of the dtype in `npy`, each integral and in -1..5. Returns the index of the first that is
   not, and its value in *bad, or -1. */
int64_t tg_digits_from(const tg_npy *npy, const uint8_t *from, int64_t n, int8_t *to, double *bad);

/* The error for digit `index` of a (C,K,18) array. */
tg_status tg_bad_digit(tg_error *err, const char *field, int64_t index, int64_t nodes, double value);

/* Takes the next digits (n), each in -1..5. `*stop` = 1 ends the work early without an error. */
typedef tg_status (*tg_digit_sink)(void *context, const int8_t *digits, int64_t n, int *stop, tg_error *err);

#define TG_DIGIT_PIECE (16 << 10) /* most digits that a sink gets at once */

#endif
