/* Sources of bytes for readers: a regular file, whole or mapped, or bytes in memory. The one place that opens files. */
#ifndef TG_SOURCE_H
#define TG_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* An open descriptor, or bytes(size) in memory when `bytes` is not NULL. */
typedef struct tg_source {
    int fd;
    const uint8_t *bytes;
    int64_t size;
} tg_source;

/* Identifies a file, so that a later reader notices that it was replaced. */
typedef struct tg_stamp {
    long long device, inode, size, changed; /* changed: ns */
} tg_stamp;

/* Open `path` into `*source`, whose fd is -1 after an error; TG_E_IO with errno, or TG_E_DATA unless it is a regular
   file ("file: expected `expected`, found a directory"). `stamp` may be NULL. */
tg_status tg_source_open(const char *path, const char *expected, tg_source *source, tg_stamp *stamp,
                         tg_error *err);

/* Map an opened file, which is not empty, into memory: its fd is closed, its `bytes` are set. */
tg_status tg_source_map(tg_source *source, tg_error *err);

/* Close an opened file, or unmap a mapped one; harmless after an error and when called twice. */
void tg_source_close(tg_source *source);

/* Give the memory of mapped pages back: they are read again when needed, mostly from the system's cache. */
void tg_source_release(const tg_source *source);

/* The same of the pages within `from`..`to`. */
void tg_source_release_part(const tg_source *source, int64_t from, int64_t to);

/* to(n) = the n bytes at `offset`. A TG_E_DATA when the file ends before. */
tg_status tg_source_read(const tg_source *source, int64_t offset, void *to, size_t n, tg_error *err);

#endif
