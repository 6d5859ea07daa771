/* The header of a .npy array (format versions 1 to 3), read without Python: dtype, memory order, shape. */
#ifndef TG_NPY_H
#define TG_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "configs/digits.h"

#define TG_NPY_PREFIX 12 /* bytes that hold the length of the header, at most */

typedef struct tg_npy {
    tg_number type;
    int fortran;      /* first index fastest */
    int ndim;         /* 0..3 */
    int64_t shape[3]; /* unused lengths are 1 */
    int64_t count;    /* product of the lengths */
    int64_t header;   /* bytes before the data */
} tg_npy;

/* Length of the whole header from its first bytes(n), n >= TG_NPY_PREFIX; 0 if this is no .npy of
 * version 1..3. */
size_t tg_npy_header_size(const uint8_t *bytes);

/* Parse bytes(n), the header as long as tg_npy_header_size says, of a member of `size` bytes. The data must
   fill the rest of the member exactly. */
tg_status tg_npy_parse(const uint8_t *bytes, size_t n, int64_t size, const char *field, tg_npy *npy,
                       tg_error *err);

#endif
