/* Sizes of arrays whose shapes come from a file. */
#ifndef TG_EXTENT_H
#define TG_EXTENT_H

#include <stdint.h>

/* Bytes of an array of shape (n) >= 0 and items of that size, or -1 when the lengths that are not 0 have a product of
   2^63 bytes or more: an array with such a shape cannot be, even if another length is 0. */
static inline int64_t tg_extent(const int64_t *shape, int n, int64_t itemsize) {
    int64_t bytes = itemsize;
    int empty = 0;
    for (int i = 0; i < n; i++) {
        if (shape[i] == 0) empty = 1;
        else if (__builtin_mul_overflow(bytes, shape[i], &bytes)) return -1;
    }
    return empty ? 0 : bytes;
}

#endif
