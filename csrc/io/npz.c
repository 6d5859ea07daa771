#include "io/npz.h"

#include <string.h>

#include "configs/distinct.h"
#include "io/crc.h"

#define DAMAGED     "the file is damaged: download or copy it again"
#define HEADER_ROOM (64 << 10)

tg_status tg_npz_open(tg_npz *npz, tg_source source, tg_cancel *cancel, tg_error *err) {
    *npz = (tg_npz){.cancel = cancel};
    tg_status status = tg_zip_open(&npz->archive, source, err);
    if (status != TG_OK) return status;
    npz->inflate = tg_inflate_new();
    return npz->inflate == NULL ? tg_fail(err, TG_E_MEMORY, "no memory to unpack a file") : TG_OK;
}

void tg_npz_close(tg_npz *npz) {
    tg_zip_close(&npz->archive);
    tg_inflate_free(npz->inflate);
    npz->inflate = NULL;
}

tg_status tg_npz_file_open(tg_npz_file *file, const char *path, tg_cancel cancel, tg_error *err) {
    *file = (tg_npz_file){.cancel = cancel};
    tg_status status = tg_source_open(path, "a regular .npz file", &file->source, &file->stamp, err);
    return status == TG_OK ? tg_npz_open(&file->npz, file->source, &file->cancel, err) : status;
}

void tg_npz_file_close(tg_npz_file *file) {
    tg_npz_close(&file->npz);
    tg_source_close(&file->source);
}

tg_status tg_npz_file_find_digits(tg_npz_file *file, const char *path, tg_cancel cancel,
                                  const tg_stamp *stamp, const long long *shape, const tg_member **member,
                                  tg_npy *npy, tg_error *err) {
    *member = NULL;
    tg_status status = tg_npz_file_open(file, path, cancel, err);
    int same = status != TG_OK || memcmp(stamp, &file->stamp, sizeof *stamp) == 0;
    if (status == TG_OK) *member = tg_zip_find(&file->npz.archive, "node_config_feat");
    if (*member != NULL) status = tg_npz_header(&file->npz, *member, npy, err);
    for (int i = 0; i < 3 && same && status == TG_OK; i++)
        same = *member != NULL && npy->ndim == 3 && npy->shape[i] == shape[i];
    if (same) return status;
    return tg_bad_field(err, "node_config_feat", "the file that was loaded", "load it again",
                        "a file changed since");
}

/* Push all bytes of `member` into `sink`. */
static tg_status unpack(tg_npz *npz, const tg_member *m, tg_sink sink, void *context, tg_error *err) {
    if (m->encrypted)
        return tg_bad_field(err, m->field, "a member that is not encrypted", "save it again with numpy.savez",
                            "an encrypted one");
    if (m->method == 0)
        return tg_inflate_copy(npz->inflate, &npz->archive.source, m->offset, m->size, sink, context,
                               npz->cancel, err);
    if (m->method == 8)
        return tg_inflate_run(npz->inflate, &npz->archive.source, m->field, m->offset, m->packed, m->size,
                              sink, context, npz->cancel, err);
    return tg_bad_field(err, m->field, "a member stored or deflated",
                        "save it again with numpy.savez_compressed", "zip method %d", m->method);
}

/* Collects the start of a member: enough for any header. */
typedef struct start {
    size_t used;
    uint8_t bytes[HEADER_ROOM];
} start;

static tg_status take_start(void *context, const uint8_t *data, size_t n, int *stop, tg_error *err) {
    (void)err;
    start *s = context;
    size_t some = n < sizeof s->bytes - s->used ? n : sizeof s->bytes - s->used;
    memcpy(s->bytes + s->used, data, some);
    s->used += some;
    *stop = s->used == sizeof s->bytes;
    return TG_OK;
}

tg_status tg_npz_header(tg_npz *npz, const tg_member *m, tg_npy *npy, tg_error *err) {
    start s;
    s.used = 0;
    const char *expected = "a .npy array of format 1, 2 or 3";
    tg_status status = unpack(npz, m, take_start, &s, err);
    if (status != TG_OK) return status;
    if (s.used < TG_NPY_PREFIX)
        return tg_bad_field(err, m->field, expected, DAMAGED, "%d byte%s", (int)s.used, TG_S(s.used));
    size_t n = tg_npy_header_size(s.bytes);
    if (n == 0 || n > s.used)
        return tg_bad_field(err, m->field, expected, DAMAGED,
                            n == 0 ? "something else" : "a header of %zu bytes", n);
    return tg_npy_parse(s.bytes, n, m->size, m->field, npy, err);
}

/* Where the bytes of an array go. */
typedef struct target {
    const tg_member *member;
    const tg_npy *npy;
    uint32_t crc;
    int64_t header_left; /* bytes of the header still to be dropped */
    int64_t done;        /* elements (digits) or bytes (raw) written */
    uint8_t *raw;
    int8_t *digits;     /* all of them, or room for a piece if there is a sink */
    tg_digit_sink sink; /* or NULL */
    void *context;
    int stopped;      /* by the sink */
    uint8_t carry[8]; /* an element cut by the end of a piece */
    int carried;
} target;

static tg_status put_digits(target *t, const uint8_t *data, int64_t n, tg_error *err) {
    while (n > 0 && !t->stopped) {
        double bad = 0;
        int64_t some = t->sink == NULL || n < TG_DIGIT_PIECE ? n : TG_DIGIT_PIECE;
        int8_t *to = t->sink == NULL ? t->digits + t->done : t->digits;
        int64_t at = tg_digits_from(t->npy->type, data, some, to, &bad);
        if (at >= 0) return tg_bad_digit(err, t->member->field, t->done + at, t->npy->shape[1], bad);
        t->done += some, n -= some;
        data += some * t->npy->type.itemsize;
        tg_status status = t->sink == NULL ? TG_OK : t->sink(t->context, to, some, &t->stopped, err);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}

static tg_status take_data(void *context, const uint8_t *data, size_t n, int *stop, tg_error *err) {
    target *t = context;
    t->crc = tg_crc32(t->crc, data, n);
    size_t header = (int64_t)n < t->header_left ? n : (size_t)t->header_left;
    t->header_left -= (int64_t)header;
    data += header, n -= header;
    if (t->raw != NULL) {
        memcpy(t->raw + t->done, data, n);
        t->done += (int64_t)n;
        return TG_OK;
    }
    size_t item = (size_t)t->npy->type.itemsize;
    while (t->carried > 0 && n > 0) {
        t->carry[t->carried++] = *data++, n--;
        if ((size_t)t->carried < item) continue;
        t->carried = 0;
        tg_status status = put_digits(t, t->carry, 1, err);
        if (status != TG_OK) return status;
    }
    tg_status status = put_digits(t, data, (int64_t)(n / item), err);
    size_t rest = n % item;
    if (rest > 0) memcpy(t->carry, data + n - rest, rest), t->carried = (int)rest;
    *stop = t->stopped;
    return status;
}

static tg_status read_all(tg_npz *npz, target *t, tg_error *err) {
    t->header_left = t->npy->header;
    tg_status status = unpack(npz, t->member, take_data, t, err);
    if (status != TG_OK) return status;
    if (t->crc != t->member->crc && !t->stopped)
        return tg_bad_field(err, t->member->field, "the CRC in the zip directory", DAMAGED,
                            "%08x instead of %08x", (unsigned)t->crc, (unsigned)t->member->crc);
    return TG_OK;
}

/* The sinks write as many bytes as unpack() delivers, which is exactly member->size, which the header product
   equals: a caller that allocated by `npy` is safe. */
tg_status tg_npz_read(tg_npz *npz, const tg_member *member, const tg_npy *npy, uint8_t *to, tg_error *err) {
    target t = {.member = member, .npy = npy, .raw = to};
    return read_all(npz, &t, err);
}

static tg_status check_digit_array(const tg_member *member, const tg_npy *npy, tg_error *err) {
    if (npy->ndim == 3 && npy->shape[2] == TG_DIGITS && !npy->fortran) return TG_OK;
    return tg_bad_field(err, member->field, "shape (C, K, 18) in C order",
                        "save it again with numpy.ascontiguousarray", "%d dimension%s, last %lld%s",
                        npy->ndim, TG_S(npy->ndim), (long long)npy->shape[2],
                        npy->fortran ? ", Fortran order" : "");
}

tg_status tg_npz_read_digits(tg_npz *npz, const tg_member *member, const tg_npy *npy, int8_t *to,
                             tg_error *err) {
    target t = {.member = member, .npy = npy, .digits = to};
    tg_status status = check_digit_array(member, npy, err);
    return status == TG_OK ? read_all(npz, &t, err) : status;
}

tg_status tg_npz_push_digits(tg_npz *npz, const tg_member *member, const tg_npy *npy, tg_digit_sink sink,
                             void *context, tg_error *err) {
    int8_t piece[TG_DIGIT_PIECE];
    target t = {.member = member, .npy = npy, .digits = piece, .sink = sink, .context = context};
    tg_status status = check_digit_array(member, npy, err);
    return status == TG_OK ? read_all(npz, &t, err) : status;
}

/* Digits that are looked at together: seldom, since that takes the cache from the inflater. */
enum { BATCH = 1 << 20 };

/* Configs as they come, of which the first of each kind is kept, in front of the ones that wait. */
typedef struct rows {
    tg_distinct known;
    int64_t C, at;   /* configs in all, complete ones so far */
    int64_t waiting; /* digits behind those of the kept configs */
    int64_t *first, *inverse;
    uint8_t *digits;
} rows;

static void take_rows(rows *r) {
    const int64_t width = (int64_t)r->known.width, left = r->C - r->at;
    const int64_t n = width == 0 || r->waiting / width > left ? left : r->waiting / width;
    int64_t known = r->known.count;
    const uint8_t *waiting = r->digits + known * width;
    tg_distinct_take(&r->known, r->digits, waiting, n, r->inverse + r->at);
    for (int64_t end = r->at + n; r->at < end; r->at++)
        if (r->inverse[r->at] == known) r->first[known++] = r->at;
    r->waiting -= n * width;
    memmove(r->digits + known * width, waiting + n * width, (size_t)r->waiting);
}

static tg_status add_rows(void *context, const int8_t *digits, int64_t n, int *stop, tg_error *err) {
    rows *r = context;
    (void)stop, (void)err;
    memcpy(r->digits + r->known.count * (int64_t)r->known.width + r->waiting, digits, (size_t)n);
    if ((r->waiting += n) >= BATCH) take_rows(r);
    return TG_OK;
}

tg_status tg_npz_read_distinct(tg_npz *npz, const tg_member *member, const tg_npy *npy, int8_t *to,
                               int64_t *first, int64_t *inverse, int64_t *U, tg_error *err) {
    rows r = {.C = npy->shape[0], .first = first, .inverse = inverse, .digits = (uint8_t *)to};
    tg_status status = check_digit_array(member, npy, err);
    *U = 0;
    if (status != TG_OK) return status;
    status = tg_distinct_new(&r.known, r.C, npy->shape[1] * TG_DIGITS, err);
    if (status == TG_OK) status = tg_npz_push_digits(npz, member, npy, add_rows, &r, err);
    if (status == TG_OK) take_rows(&r);
    *U = r.known.count;
    tg_distinct_free(&r.known);
    return status;
}
