#include "io/zip.h"

#include <stdlib.h>
#include <string.h>

#include "io/crc.h"

#define END_SIZE      22
#define END64_SIZE    56
#define LOCATOR_SIZE  20
#define ENTRY_SIZE    46
#define LOCAL_SIZE    30
#define MAX_MEMBERS   4096
#define MAX_DIRECTORY (4 << 20)
#define MAX_EXPANSION 1032 /* deflate cannot do better: 258 bytes from two bits */
#define AGAIN         "the file is damaged or was cut off: download or copy it again"
#define SAVE_AGAIN    "save it again with numpy.savez"

static uint32_t u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static tg_status bad_zip(tg_error *err, const char *found) {
    return tg_bad_field(err, "zip", "a zip file as numpy.savez writes it", AGAIN, "%s", found);
}

/* Where the central directory lies. */
typedef struct directory {
    uint64_t count, size, offset;
} directory;

/* The zip64 end record in front of the locator at `at`; `*end` becomes its position. */
static tg_status read_end64(const tg_source *source, int64_t at, directory *d, int64_t *end, tg_error *err) {
    uint8_t locator[LOCATOR_SIZE], record[END64_SIZE];
    if (at < 0) return bad_zip(err, "no zip64 end record");
    tg_status status = tg_source_read(source, at, locator, sizeof locator, err);
    if (status != TG_OK) return status;
    if (u32(locator) != 0x07064b50) return bad_zip(err, "no zip64 end record");
    uint64_t where = u64(locator + 8);
    if (where > (uint64_t)at || (uint64_t)at - where < END64_SIZE)
        return bad_zip(err, "a zip64 end record out of place");
    status = tg_source_read(source, (int64_t)where, record, sizeof record, err);
    if (status != TG_OK) return status;
    if (u32(record) != 0x06064b50 || u64(record + 4) != (uint64_t)at - where - 12)
        return bad_zip(err, "a wrong zip64 end record");
    if (u32(record + 16) != 0 || u32(record + 20) != 0 || u64(record + 24) != u64(record + 32))
        return bad_zip(err, "a part of a zip in several files");
    *d = (directory){u64(record + 32), u64(record + 40), u64(record + 48)};
    *end = (int64_t)where;
    return TG_OK;
}

/* Find the end record: the last one whose comment reaches exactly to the end of the file. */
static tg_status read_end(const tg_source *source, directory *d, tg_error *err) {
    uint8_t tail[END_SIZE + 65535];
    if (source->size == 0) return bad_zip(err, "an empty file");
    if (source->size < END_SIZE) return bad_zip(err, "a file too short for a zip");
    size_t n = source->size < (int64_t)sizeof tail ? (size_t)source->size : sizeof tail;
    tg_status status = tg_source_read(source, source->size - (int64_t)n, tail, n, err);
    if (status != TG_OK) return status;
    size_t at = n - END_SIZE + 1;
    int seen = 0;
    while (at-- > 0) {
        if (u32(tail + at) != 0x06054b50) continue;
        seen = 1;
        if (at + END_SIZE + u16(tail + at + 20) == n) break;
    }
    if (at == (size_t)-1) {
        if (seen) return bad_zip(err, "bytes after the end of the zip");
        uint8_t start[2];
        if (tg_source_read(source, 0, start, 2, err) == TG_OK && start[0] == 'P' && start[1] == 'K')
            return bad_zip(err, "the beginning of a zip file without its end");
        return bad_zip(err, "something else (no zip directory)");
    }
    const uint8_t *record = tail + at;
    int64_t end = source->size - (int64_t)(n - at);
    *d = (directory){u16(record + 10), u32(record + 12), u32(record + 16)};
    if (d->count == 0xffff || d->size == 0xffffffffu || d->offset == 0xffffffffu) {
        if ((status = read_end64(source, end - LOCATOR_SIZE, d, &end, err)) != TG_OK) return status;
    } else if (u16(record + 4) != 0 || u16(record + 6) != 0 || u16(record + 8) != d->count) {
        return bad_zip(err, "a part of a zip in several files");
    }
    if (d->offset > (uint64_t)end || d->size != (uint64_t)end - d->offset)
        return bad_zip(err, "a directory that is not where the end record says");
    if (d->count > MAX_MEMBERS || d->size > MAX_DIRECTORY || d->count * ENTRY_SIZE > d->size)
        return bad_zip(err, "a directory of impossible size");
    return TG_OK;
}

/* Replace saturated sizes (and offset, when given) by those in the zip64 extra field. 0 when they are
 * missing. */
static int apply_zip64(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed, uint64_t *offset) {
    if (*size != 0xffffffffu && *packed != 0xffffffffu && (offset == NULL || *offset != 0xffffffffu))
        return 1;
    while (n >= 4) {
        size_t length = u16(extra + 2);
        if (length > n - 4) return 0;
        if (u16(extra) == 1) {
            const uint8_t *p = extra + 4;
            uint64_t *wanted[3] = {size, packed, offset};
            for (int i = 0; i < 3; i++) {
                if (wanted[i] == NULL || *wanted[i] != 0xffffffffu) continue;
                if (length < 8) return 0;
                *wanted[i] = u64(p), p += 8, length -= 8;
            }
            return 1;
        }
        extra += 4 + length, n -= 4 + length;
    }
    return 0;
}

/* Field name of a member for people and look-ups. */
static void set_name(tg_member *m, const uint8_t *name, size_t n) {
    m->is_array = n > 4 && memcmp(name + n - 4, ".npy", 4) == 0;
    if (m->is_array) n -= 4;
    size_t kept = n < sizeof m->field ? n : sizeof m->field - 1;
    for (size_t i = 0; i < kept; i++) m->field[i] = name[i] > 32 && name[i] < 127 ? (char)name[i] : '?';
    m->field[kept] = 0;
}

/* The local header must agree; it gives the start of the bytes. */
static tg_status check_local(const tg_source *source, int64_t limit, tg_member *m, const uint8_t *entry,
                             const uint8_t *name, size_t name_size, tg_error *err) {
    uint8_t local[LOCAL_SIZE], rest[2 * 1024];
    const char *expected = "a local header equal to the zip directory";
    if (m->header > limit - LOCAL_SIZE)
        return tg_bad_field(err, m->field, expected, AGAIN, "one outside the file");
    tg_status status = tg_source_read(source, m->header, local, sizeof local, err);
    if (status != TG_OK) return status;
    if (u32(local) != 0x04034b50)
        return tg_bad_field(err, m->field, expected, AGAIN, "no header at its place");
    size_t n = u16(local + 26), extra = u16(local + 28);
    if (n != name_size || extra > 1024 || m->header + LOCAL_SIZE + (int64_t)(n + extra) > limit)
        return tg_bad_field(err, m->field, expected, AGAIN, "another name or an impossible length");
    status = tg_source_read(source, m->header + LOCAL_SIZE, rest, n + extra, err);
    if (status != TG_OK) return status;
    if (memcmp(rest, name, n) != 0) return tg_bad_field(err, m->field, expected, AGAIN, "another name");
    if (((u16(local + 6) ^ u16(entry + 8)) & 1) != 0 || u16(local + 8) != u16(entry + 10))
        return tg_bad_field(err, m->field, expected, AGAIN, "another method or encryption");
    uint64_t packed = u32(local + 18), size = u32(local + 22);
    if (!apply_zip64(rest + n, extra, &size, &packed, NULL))
        return tg_bad_field(err, m->field, expected, AGAIN, "no zip64 sizes");
    int later = u16(local + 6) >> 3 & 1; /* sizes and CRC stand behind the data, here are zeros */
    if (!later && (u32(local + 14) != m->crc || packed != (uint64_t)m->packed || size != (uint64_t)m->size))
        return tg_bad_field(err, m->field, expected, AGAIN,
                            "another size or CRC (%llu byte%s packed, %llu unpacked)",
                            (unsigned long long)packed, TG_S(packed), (unsigned long long)size);
    m->offset = m->header + LOCAL_SIZE + (int64_t)(n + extra);
    if (m->packed > limit - m->offset)
        return tg_bad_field(err, m->field, "a member inside the file", AGAIN, "%lld byte%s at %lld",
                            (long long)m->packed, TG_S(m->packed), (long long)m->offset);
    return TG_OK;
}

/* One entry of the directory bytes(left); `*used` is its length. */
static tg_status read_entry(const tg_source *source, int64_t limit, const uint8_t *entry, size_t left,
                            size_t *used, tg_member *m, tg_error *err) {
    if (left < ENTRY_SIZE || u32(entry) != 0x02014b50) return bad_zip(err, "a wrong entry in the directory");
    size_t name = u16(entry + 28), extra = u16(entry + 30), comment = u16(entry + 32);
    *used = ENTRY_SIZE + name + extra + comment;
    if (*used > left) return bad_zip(err, "an entry that runs over the end of the directory");
    if (name == 0 || name > 1024) return bad_zip(err, "a member with an empty or very long name");
    set_name(m, entry + ENTRY_SIZE, name);
    m->encrypted = (int)(u16(entry + 8) & 1);
    m->method = (int)u16(entry + 10);
    m->crc = u32(entry + 16);
    uint64_t packed = u32(entry + 20), size = u32(entry + 24), header = u32(entry + 42);
    if (!apply_zip64(entry + ENTRY_SIZE + name, extra, &size, &packed, &header))
        return tg_bad_field(err, m->field, "zip64 sizes", AGAIN, "none");
    if (packed > INT64_MAX || size > INT64_MAX || header > (uint64_t)limit)
        return tg_bad_field(err, m->field, "a member inside the file", AGAIN, "size %llu at %llu",
                            (unsigned long long)size, (unsigned long long)header);
    m->packed = (int64_t)packed, m->size = (int64_t)size, m->header = (int64_t)header;
    if (m->method == 0 && packed != size)
        return tg_bad_field(err, m->field, "equal sizes of a stored member", AGAIN, "%llu and %llu",
                            (unsigned long long)packed, (unsigned long long)size);
    if (m->method == 8 && size / MAX_EXPANSION > packed)
        return tg_bad_field(err, m->field, "a size that deflate can reach (1032:1)", AGAIN,
                            "%llu bytes from %llu", (unsigned long long)size, (unsigned long long)packed);
    return check_local(source, limit, m, entry, entry + ENTRY_SIZE, name, err);
}

static int by_header(const void *a, const void *b) {
    int64_t x = (*(const tg_member *const *)a)->header, y = (*(const tg_member *const *)b)->header;
    return (x > y) - (x < y);
}

static int by_field(const void *a, const void *b) {
    const tg_member *x = *(const tg_member *const *)a, *y = *(const tg_member *const *)b;
    int order = strcmp(x->field, y->field);
    return order != 0 ? order : x->is_array - y->is_array;
}

/* Members must not share bytes or names. */
static tg_status check_apart(const tg_archive *archive, tg_error *err) {
    const tg_member **sorted = malloc(sizeof *sorted * ((size_t)archive->count + 1));
    if (sorted == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the zip directory");
    for (int i = 0; i < archive->count; i++) sorted[i] = &archive->members[i];
    tg_status status = TG_OK;
    qsort(sorted, (size_t)archive->count, sizeof *sorted, by_header);
    for (int i = 1; i < archive->count && status == TG_OK; i++)
        if (sorted[i]->header < sorted[i - 1]->offset + sorted[i - 1]->packed)
            status = tg_bad_field(err, sorted[i]->field, "members that do not overlap", AGAIN,
                                  "bytes shared with %s", sorted[i - 1]->field);
    qsort(sorted, (size_t)archive->count, sizeof *sorted, by_field);
    for (int i = 1; i < archive->count && status == TG_OK; i++)
        if (by_field(&sorted[i - 1], &sorted[i]) == 0)
            status = tg_bad_field(err, sorted[i]->field, "one member of this name", SAVE_AGAIN, "two");
    free(sorted);
    return status;
}

tg_status tg_zip_open(tg_archive *archive, tg_source source, tg_error *err) {
    *archive = (tg_archive){.source = source};
    directory d;
    tg_status status = read_end(&source, &d, err);
    if (status != TG_OK) return status;
    uint8_t *bytes = malloc((size_t)d.size + 1);
    archive->members = calloc((size_t)d.count + 1, sizeof *archive->members);
    if (bytes == NULL || archive->members == NULL) {
        free(bytes);
        return tg_fail(err, TG_E_MEMORY, "no memory for the zip directory");
    }
    status = tg_source_read(&source, (int64_t)d.offset, bytes, (size_t)d.size, err);
    if (status == TG_OK) archive->directory = tg_crc32(0, bytes, (size_t)d.size);
    size_t at = 0, used = 0;
    for (uint64_t i = 0; i < d.count && status == TG_OK; i++, at += used) {
        status = read_entry(&source, (int64_t)d.offset, bytes + at, (size_t)d.size - at, &used,
                            &archive->members[i], err);
        archive->count = (int)i + 1;
    }
    if (status == TG_OK && at != d.size)
        status = bad_zip(err, "more bytes in the directory than its entries");
    if (status == TG_OK) status = check_apart(archive, err);
    free(bytes);
    return status;
}

void tg_zip_close(tg_archive *archive) {
    free(archive->members);
    archive->members = NULL;
    archive->count = 0;
}

const tg_member *tg_zip_find(const tg_archive *archive, const char *field) {
    for (int i = 0; i < archive->count; i++)
        if (archive->members[i].is_array && strcmp(archive->members[i].field, field) == 0)
            return &archive->members[i];
    return NULL;
}
