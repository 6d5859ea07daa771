/* Writes a pack (pack.h) into an open file: small arrays whole, configs as they come, through buffers of fixed size. The
   header goes last, so a file that was not finished is not a pack. The caller renames and syncs. */
#ifndef TG_PACKWRITER_H
#define TG_PACKWRITER_H

#include "configs/digits.h"
#include "io/pack.h"

typedef struct tg_packwriter {
    int fd;
    tg_pack pack;
    int64_t at; /* where the next bytes go */
    uint32_t crc;
    size_t used;
    uint8_t *buffer;
    tg_encoder *encoder;
    int full;      /* the encoder has no more numbers */
    int64_t *done; /* digits so far, for a progress bar; may be NULL */
} tg_packwriter;

/* Begin. Close also after an error; the file stays open. */
tg_status tg_packwriter_open(tg_packwriter *w, int fd, tg_pack_kind kind, tg_origin origin, tg_error *err);
void tg_packwriter_close(tg_packwriter *w);

/* Append array `part`, in the order of tg_part; shape (ndim), data as the part's type says, which `type` is. */
tg_status tg_packwriter_put(tg_packwriter *w, tg_part part, char type, const int64_t *shape, const void *data,
                            tg_error *err);

/* Pushes all digits of a graph into `sink`; may be called again from the beginning. */
typedef tg_status (*tg_digit_source)(void *from, tg_digit_sink sink, void *context, tg_error *err);

/* Append the configs (C,K,18): numbers of one byte, or else of two or four, which takes another pass each. */
tg_status tg_packwriter_put_digits(tg_packwriter *w, int64_t C, int64_t K, tg_digit_source source, void *from,
                                   tg_error *err);

/* Write the header. */
tg_status tg_packwriter_finish(tg_packwriter *w, tg_error *err);

#endif
