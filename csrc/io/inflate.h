/* Streaming inflate (RFC 1951) of one zip member: bytes are pulled from a tg_source through a small input
   buffer and pushed to a sink in pieces of at most about 256 KiB, so memory does not grow with the member.
   A "stored" member goes the same way. It does not know what the bytes mean. */
#ifndef TG_INFLATE_H
#define TG_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cancel.h"
#include "io/source.h"

/* Takes the next data(n). `*stop` = 1 ends the work early without an error. */
typedef tg_status (*tg_sink)(void *context, const uint8_t *data, size_t n, int *stop, tg_error *err);

typedef struct tg_inflate tg_inflate; /* buffers and tables, about 350 KB; reusable, one thread at a time */

tg_inflate *tg_inflate_new(void); /* NULL when there is no memory */
void tg_inflate_free(tg_inflate *s);

/* Push the `size` bytes that `packed` bytes at `offset` stand for; anything but exactly `size` bytes from
   exactly `packed` bytes is a TG_E_DATA. `field` names the member in errors. */
tg_status tg_inflate_run(tg_inflate *s, const tg_source *source, const char *field, int64_t offset,
                         int64_t packed, int64_t size, tg_sink sink, void *context, tg_cancel *cancel,
                         tg_error *err);

/* The same for a member stored without compression: `size` bytes at `offset`. */
tg_status tg_inflate_copy(tg_inflate *s, const tg_source *source, int64_t offset, int64_t size, tg_sink sink,
                          void *context, tg_cancel *cancel, tg_error *err);

#endif
