/* The directory of a zip file: which members there are and where their bytes lie. Everything that could make
   a later read go wrong is checked: members lie inside the file without overlapping, their names differ, and
   the local headers agree with the directory. */
#ifndef TG_ZIP_H
#define TG_ZIP_H

#include "io/inflate.h"

typedef struct tg_member {
    char field[96]; /* name without ".npy", printable ASCII ('?' for anything else), for look-up and errors */
    int is_array;   /* the name ends in ".npy" */
    int method;     /* 0 stored, 8 deflate; others are refused when read */
    int encrypted;
    uint32_t crc;
    int64_t header, offset, packed, size; /* local header, first byte, compressed and full size */
} tg_member;

typedef struct tg_archive {
    tg_source source;
    uint32_t directory; /* CRC of the directory, in which the size and CRC of every member stand */
    int count;
    tg_member *members;
} tg_archive;

/* Read the directory of `source`, which must outlive the archive. Free with tg_zip_close, also after an
 * error. */
tg_status tg_zip_open(tg_archive *archive, tg_source source, tg_error *err);
void tg_zip_close(tg_archive *archive);

/* The array member with this field name, or NULL. */
const tg_member *tg_zip_find(const tg_archive *archive, const char *field);

#endif
