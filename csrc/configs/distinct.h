/* Equal rows of bytes: found by a 128-bit hash and a comparison, so that unequal ones are never merged. Rows come all
   at once, or one after the other, in which case only the first of each kind is kept. */
#ifndef TG_DISTINCT_H
#define TG_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tg_hash128 {
    uint64_t low, high;
} tg_hash128;

/* Of a row of `width` bytes, to be compared with those of rows of that width. */
tg_hash128 tg_hash_row(const uint8_t *row, size_t width);

/* Rows known so far, by number. */
typedef struct tg_distinct {
    size_t width;     /* bytes of a row */
    int64_t count;    /* distinct ones */
    int64_t size;     /* of the table, a power of two */
    tg_hash128 *hash; /* (count) */
    int32_t *slot;    /* (size), 0: free; otherwise number of the row + 1 */
} tg_distinct;

/* For up to `rows` rows of `width` bytes. Free also after an error. */
tg_status tg_distinct_new(tg_distinct *d, int64_t rows, int64_t width, tg_error *err);
void tg_distinct_free(tg_distinct *d);

/* numbers (n,) = which of kept (count,width) each of rows (n,width) equals. Those that equal none are appended to
   `kept`, in their order; rows may lie behind `kept` in the same memory. */
void tg_distinct_take(tg_distinct *d, uint8_t *kept, const uint8_t *rows, int64_t n, int64_t *numbers);

/* Equal rows of rows (C,width) bytes: first (C,) holds in its first *U places the row of each distinct value in order
   of appearance, inverse (C,) the number of each row's value. O(C width). */
tg_status tg_rows_dedup(int64_t *first, int64_t *inverse, int64_t *U, const void *rows, int64_t C,
                        int64_t width, tg_error *err);

#endif
