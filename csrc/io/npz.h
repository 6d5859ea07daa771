/* Arrays out of an .npz: header first, everything checked, then the bytes, either as they are or as config
   digits packed one to a byte while inflating, so that a float (C,K,18) array never exists. */
#ifndef TG_NPZ_H
#define TG_NPZ_H

#include "io/npy.h"
#include "io/zip.h"

typedef struct tg_npz {
    tg_archive archive;
    tg_inflate *inflate;
    tg_cancel *cancel;
} tg_npz;

/* An .npz in the file system. */
typedef struct tg_npz_file {
    tg_npz npz;
    tg_source source;
    tg_stamp stamp;
    tg_cancel cancel;
} tg_npz_file;

/* Open `path`. Close also after an error. */
tg_status tg_npz_file_open(tg_npz_file *file, const char *path, tg_cancel cancel, tg_error *err);
void tg_npz_file_close(tg_npz_file *file);

/* The same, and find the configs of shape (3) in a file that still has this stamp. */
tg_status tg_npz_file_find_digits(tg_npz_file *file, const char *path, tg_cancel cancel,
                                  const tg_stamp *stamp, const long long *shape, const tg_member **member,
                                  tg_npy *npy, tg_error *err);

/* Open the directory of `source`. Close also after an error. */
tg_status tg_npz_open(tg_npz *npz, tg_source source, tg_cancel *cancel, tg_error *err);
void tg_npz_close(tg_npz *npz);

/* What array `member` is. Its header product equals the member's size when this returns TG_OK. */
tg_status tg_npz_header(tg_npz *npz, const tg_member *member, tg_npy *npy, tg_error *err);

/* to(count * itemsize) = the array's bytes as stored; size and CRC are checked. */
tg_status tg_npz_read(tg_npz *npz, const tg_member *member, const tg_npy *npy, uint8_t *to, tg_error *err);

/* to(C,K,18) = the array's values, each checked to be integral and in -1..5; size and CRC are checked. */
tg_status tg_npz_read_digits(tg_npz *npz, const tg_member *member, const tg_npy *npy, int8_t *to,
                             tg_error *err);

/* The same digits, pushed into `sink` piece by piece: memory does not grow with the array. */
tg_status tg_npz_push_digits(tg_npz *npz, const tg_member *member, const tg_npy *npy, tg_digit_sink sink,
                             void *context, tg_error *err);

/* All digits, but of equal configs the first only: to, with room for (C,K,18), holds the *U different ones in its first
   places, first (C,) which ones they were, inverse (C,) the number of every config's. */
tg_status tg_npz_read_distinct(tg_npz *npz, const tg_member *member, const tg_npy *npy, int8_t *to,
                               int64_t *first, int64_t *inverse, int64_t *U, tg_error *err);

#endif
