/* Numbers of any type, as others store them, in the types that the core computes with. */
#ifndef TG_NUMBERS_H
#define TG_NUMBERS_H

#include <stdint.h>

/* How a number is stored. */
typedef struct tg_number {
    char kind;    /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float */
    int itemsize; /* bytes: b 1; i, u 1 2 4 8; f 2 4 8 */
    int swapped;  /* in the other byte order than this machine's */
} tg_number;

/* The number at `from` as a double. Integers beyond 2^53 are rounded. */
double tg_number_at(tg_number type, const uint8_t *from);

/* to (n,) from the numbers (n,) at `from`, aligned and in this machine's byte order. Each returns the index of
   the first that cannot be kept, or -1: infinite and NaN among float32, to which wider numbers are rounded;
   what is not a whole number of 64 bits. Nothing is written if `to` is `from`, of the same type. */
int64_t tg_floats_from(tg_number type, const void *from, int64_t n, float *to);
int64_t tg_whole_from(tg_number type, const void *from, int64_t n, int64_t *to);
void tg_doubles_from(tg_number type, const void *from, int64_t n, double *to);

#endif
