#define _GNU_SOURCE
#include "io/packwriter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/crc.h"

#define BUFFER (256 << 10)

tg_status tg_packwriter_open(tg_packwriter *w, int fd, tg_pack_kind kind, tg_origin origin, tg_error *err) {
    *w = (tg_packwriter){.fd = fd, .pack = {.kind = kind, .origin = origin}, .at = TG_PACK_HEADER};
    w->buffer = malloc(BUFFER);
    return w->buffer == NULL ? tg_fail(err, TG_E_MEMORY, "no memory to write a pack") : TG_OK;
}

void tg_packwriter_close(tg_packwriter *w) {
    tg_encoder_free(w->encoder);
    free(w->buffer);
    w->encoder = NULL;
    w->buffer = NULL;
}

static tg_status write_at(tg_packwriter *w, int64_t at, const uint8_t *bytes, size_t n, tg_error *err) {
    for (size_t done = 0; done < n;) {
        const ssize_t some = pwrite(w->fd, bytes + done, n - done, (off_t)(at + (int64_t)done));
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) {
            const int reason = some < 0 ? errno : ENOSPC;
            tg_fail(err, TG_E_IO, "cannot write");
            if (err != NULL) err->sys_errno = reason;
            return TG_E_IO;
        }
        done += (size_t)some;
    }
    return TG_OK;
}

/* Zeros up to where `part` begins, so that the file has no holes that another tool could fill. */
static tg_status begin_part(tg_packwriter *w, tg_part part, tg_error *err) {
    static const uint8_t zeros[4096];
    const int64_t begin = tg_pack_place(part, w->at);
    tg_status status = write_at(w, w->at, zeros, (size_t)(begin - w->at), err);
    w->at = begin;
    return status;
}

tg_status tg_packwriter_put(tg_packwriter *w, tg_part part, char type, const int64_t *shape, const void *data,
                            tg_error *err) {
    tg_pack_array *a = &w->pack.part[part];
    a->itemsize = tg_part_itemsize(part), a->type = type;
    int64_t bytes = a->itemsize;
    for (int i = 0; i < 3; i++) {
        a->shape[i] = i < tg_part_ndim(part) ? shape[i] : 1;
        bytes *= a->shape[i];
    }
    tg_status status = begin_part(w, part, err);
    if (status != TG_OK) return status;
    a->crc = tg_crc32(0, data, (size_t)bytes);
    status = write_at(w, w->at, data, (size_t)bytes, err);
    w->at += bytes;
    return status;
}

static tg_status flush(tg_packwriter *w, tg_error *err) {
    w->crc = tg_crc32(w->crc, w->buffer, w->used);
    tg_status status = write_at(w, w->at, w->buffer, w->used, err);
    w->at += (int64_t)w->used, w->used = 0;
    return status;
}

static tg_status take(void *context, const int8_t *digits, int64_t n, int *stop, tg_error *err) {
    tg_packwriter *w = context;
    if (BUFFER - w->used < TG_ENCODE_ROOM) {
        tg_status status = flush(w, err);
        if (status != TG_OK) return status;
    }
    size_t bytes = 0;
    w->full = *stop = !tg_encoder_put(w->encoder, digits, n, w->buffer + w->used, &bytes);
    w->used += bytes;
    if (w->done != NULL) __atomic_store_n(w->done, *w->done + n, __ATOMIC_RELAXED);
    return TG_OK;
}

_Static_assert(TG_DIGIT_PIECE <= TG_ENCODE_MOST, "a piece of digits fits the encoder");

tg_status tg_packwriter_put_digits(tg_packwriter *w, int64_t C, int64_t K, tg_digit_source source, void *from,
                                   tg_error *err) {
    tg_pack_array *a = &w->pack.part[TG_CODES];
    tg_status status = begin_part(w, TG_CODES, err);
    const int64_t begin = w->at;
    w->full = 1;
    for (int size = 1; size <= 4 && w->full && status == TG_OK; size *= 2) {
        tg_encoder_free(w->encoder);
        if ((w->encoder = tg_encoder_new(size)) == NULL)
            return tg_fail(err, TG_E_MEMORY, "no memory to write a pack");
        w->at = begin, w->crc = 0, w->used = 0, w->full = 0;
        if (w->done != NULL) __atomic_store_n(w->done, 0, __ATOMIC_RELAXED);
        *a = (tg_pack_array){.itemsize = size, .type = 'u', .shape = {C, K, TG_TENSORS}};
        status = source(from, take, w, err);
    }
    if (status == TG_OK) status = flush(w, err);
    if (status != TG_OK) return status;
    a->crc = w->crc;
    int64_t shape[2] = {0, TG_LAYOUT_DIGITS};
    const int8_t *table = tg_encoder_table(w->encoder, &shape[0]);
    return tg_packwriter_put(w, TG_TABLE, 'i', shape, table, err);
}

tg_status tg_packwriter_finish(tg_packwriter *w, tg_error *err) {
    uint8_t head[TG_PACK_HEADER];
    tg_pack_header(&w->pack, head);
    tg_pack read; /* arrays that do not belong together are found here, by the reader itself */
    tg_status status = tg_pack_parse(&read, head, sizeof head, w->pack.size, err);
    return status != TG_OK ? status : write_at(w, 0, head, sizeof head, err);
}
