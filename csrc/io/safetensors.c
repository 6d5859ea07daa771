#include "io/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/extent.h"
#include "base/json.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian and read as they are"
#endif

#define AGAIN   "the file is damaged: download, copy or write it again"
#define LENGTH  8 /* bytes before the header */
#define ALLOWED "F16, BF16, F32, F64, I8, I16, I32, I64, U8 or BOOL"

static const struct {
    const char *name;
    int size;
} DTYPES[TG_DTYPES] = {{"F16", 2}, {"BF16", 2}, {"F32", 4}, {"F64", 8}, {"I8", 1},
                       {"I16", 2}, {"I32", 4},  {"I64", 8}, {"U8", 1},  {"BOOL", 1}};

const char *tg_dtype_name(tg_dtype dtype) { return DTYPES[dtype].name; }
int tg_dtype_size(tg_dtype dtype) { return DTYPES[dtype].size; }

/* A header being read. */
typedef struct reader {
    tg_safetensors *file;
    tg_json json;
    size_t
        used; /* of the pool, which is as large as the header: a text and its NUL need no more than it and quotes */
    int room_tensors, room_notes;
    tg_error *err;
} reader;

static tg_status bad_header(tg_error *err, const char *found) {
    return tg_bad_field(err, "header", "a safetensors header and as many bytes as it says", AGAIN, "%s",
                        found);
}

static tg_status bad_json(reader *r) {
    if (r->json.problem == NULL) return bad_header(r->err, "JSON of another structure");
    return tg_bad_field(r->err, "header", "a safetensors header in JSON", AGAIN, "%s at its byte %lld",
                        r->json.problem, (long long)(r->json.at - r->json.start));
}

/* The last key or string, in the pool. */
static tg_text take_text(reader *r) {
    char *to = r->file->pool + r->used;
    size_t size = tg_json_text(&r->json, to);
    to[size] = 0;
    r->used += size + 1;
    return (tg_text){to, size};
}

/* The last key among `n` words, or -1. */
static int which(reader *r, const char *const *words, int n) {
    size_t before = r->used;
    tg_text key = take_text(r);
    r->used = before;
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == key.size && memcmp(words[i], key.bytes, key.size) == 0) return i;
    return -1;
}

/* An array that begins with `opened`: its whole numbers into to(most), their number into *n. */
static tg_status take_counts(reader *r, tg_json_kind opened, int most, int64_t *to, int *n) {
    if (opened != TG_JSON_ARRAY) return bad_json(r);
    for (*n = 0;; ++*n) {
        tg_json_kind kind = tg_json_next(&r->json);
        if (kind == TG_JSON_CLOSE) return TG_OK;
        int64_t value = kind == TG_JSON_NUMBER ? tg_json_count(&r->json) : -1;
        if (value < 0) return bad_json(r);
        if (*n == most) return bad_header(r->err, "a list of numbers that is too long");
        to[*n] = value;
    }
}

static tg_status take_dtype(reader *r, tg_tensor *t) {
    const char *words[TG_DTYPES];
    for (int i = 0; i < TG_DTYPES; i++) words[i] = DTYPES[i].name;
    int found = which(r, words, TG_DTYPES);
    if (found < 0)
        return tg_bad_field(r->err, t->name.bytes, "a tensor of " ALLOWED, "convert it, or leave it out",
                            "%.*s", r->json.size > 20 ? 20 : (int)r->json.size, r->json.text);
    t->dtype = (tg_dtype)found;
    return TG_OK;
}

/* Whether shape and offsets agree; fills in what follows from them. `bounds` are relative to the data. */
static tg_status check_tensor(reader *r, tg_tensor *t, const int64_t *bounds) {
    int item = DTYPES[t->dtype].size;
    const int wide = t->dtype == TG_DTYPE_BF16 ? 2 * item : item; /* bfloat16 becomes float32 */
    const int64_t memory = tg_extent(t->shape, t->ndim, wide), bytes = memory / wide * item;
    if (memory < 0)
        return tg_bad_field(r->err, t->name.bytes, "a shape that can exist", AGAIN, "2^63 bytes or more");
    t->count = memory / wide;
    if (bounds[1] < bounds[0] || bytes != bounds[1] - bounds[0])
        return tg_bad_field(r->err, t->name.bytes, "as many bytes as its shape says", AGAIN,
                            "%lld element%s of %d byte%s in bytes %lld to %lld", (long long)t->count,
                            TG_S(t->count), item, TG_S(item), (long long)bounds[0], (long long)bounds[1]);
    t->offset = bounds[0], t->size = bytes;
    t->memory = memory; /* held against max_bytes before it is allocated */
    return TG_OK;
}

/* The value of a tensor's name. */
static tg_status take_tensor(reader *r, tg_tensor *t) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    int seen = 0, numbers = 0;
    int64_t bounds[2] = {0, 0};
    if (tg_json_next(&r->json) != TG_JSON_OBJECT) return bad_json(r);
    for (;;) {
        tg_json_kind kind = tg_json_next(&r->json);
        if (kind == TG_JSON_CLOSE) break;
        if (kind != TG_JSON_KEY) return bad_json(r);
        int found = which(r, keys, 3);
        kind = tg_json_next(&r->json);
        if (found < 0) { /* of a later version of the format */
            if (!tg_json_skip(&r->json, kind)) return bad_json(r);
            continue;
        }
        if (seen & 1 << found)
            return tg_bad_field(r->err, t->name.bytes, "every key once", AGAIN, "%s twice", keys[found]);
        seen |= 1 << found;
        tg_status status = TG_OK;
        if (found == 0) status = kind == TG_JSON_STRING ? take_dtype(r, t) : bad_json(r);
        else if (found == 1) status = take_counts(r, kind, TG_TENSOR_DIMS, t->shape, &t->ndim);
        else if ((status = take_counts(r, kind, 2, bounds, &numbers)) == TG_OK && numbers != 2)
            status = bad_header(r->err, "data_offsets that are not two numbers");
        if (status != TG_OK) return status;
    }
    if (seen != 7)
        return tg_bad_field(r->err, t->name.bytes, "dtype, shape and data_offsets", AGAIN, "no %s",
                            keys[!(seen & 1)   ? 0
                                 : !(seen & 2) ? 1
                                               : 2]);
    return check_tensor(r, t, bounds);
}

/* Room for one more item of `size` bytes in `*items`, which has `count` of `*room`. */
static tg_status grow(reader *r, void **items, int count, int *room, size_t size) {
    if (count < *room) return TG_OK;
    int more =
        *room == 0 ? 64 : 2 * *room; /* an item takes some bytes of the header, so this cannot overflow */
    void *larger = realloc(*items, (size_t)more * size);
    if (larger == NULL) return tg_fail(r->err, TG_E_MEMORY, "no memory for a header");
    *items = larger;
    *room = more;
    return TG_OK;
}

static tg_status take_notes(reader *r) {
    tg_safetensors *file = r->file;
    if (tg_json_next(&r->json) != TG_JSON_OBJECT) return bad_json(r);
    for (;;) {
        tg_json_kind kind = tg_json_next(&r->json);
        if (kind == TG_JSON_CLOSE) return TG_OK;
        if (kind != TG_JSON_KEY) return bad_json(r);
        tg_status status = grow(r, (void **)&file->note, file->notes, &r->room_notes, sizeof *file->note);
        if (status != TG_OK) return status;
        tg_note *note = &file->note[file->notes];
        note->key = take_text(r);
        if (tg_json_next(&r->json) != TG_JSON_STRING) return bad_json(r);
        note->value = take_text(r);
        file->notes++;
    }
}

static tg_status take_header(reader *r) {
    static const char *const metadata = "__metadata__";
    tg_safetensors *file = r->file;
    int noted = 0;
    if (tg_json_next(&r->json) != TG_JSON_OBJECT) return bad_json(r);
    for (;;) {
        tg_json_kind kind = tg_json_next(&r->json);
        if (kind == TG_JSON_CLOSE) break;
        if (kind != TG_JSON_KEY) return bad_json(r);
        tg_status status;
        if (which(r, &metadata, 1) == 0) {
            if (noted++) return bad_header(r->err, "__metadata__ twice");
            status = take_notes(r);
        } else {
            status = grow(r, (void **)&file->tensors, file->count, &r->room_tensors, sizeof *file->tensors);
            if (status != TG_OK) return status;
            tg_tensor *t = &file->tensors[file->count];
            *t = (tg_tensor){.name = take_text(r)};
            status = take_tensor(r, t);
            file->count++;
        }
        if (status != TG_OK) return status;
    }
    return tg_json_next(&r->json) == TG_JSON_END ? TG_OK : bad_json(r);
}

static int compare_texts(tg_text a, tg_text b) {
    int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int by_name(const void *a, const void *b) {
    return compare_texts(((const tg_tensor *)a)->name, ((const tg_tensor *)b)->name);
}

static int by_key(const void *a, const void *b) {
    return compare_texts(((const tg_note *)a)->key, ((const tg_note *)b)->key);
}

static int by_place(const void *a, const void *b) {
    const tg_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/* No name twice; the tensors fill `bytes` from the first to the last. Leaves them in the order of their names, with
   offsets in the file, whose data begin at `data`. */
static tg_status check_all(tg_safetensors *file, int64_t data, int64_t bytes, tg_error *err) {
    int64_t end = 0;
    if (file->count > 0) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_place);
    for (int i = 0; i < file->count; i++) {
        tg_tensor *t = &file->tensors[i];
        if (t->offset != end)
            return tg_bad_field(err, t->name.bytes, "to begin where the tensor before it ends", AGAIN,
                                "byte %lld instead of %lld", (long long)t->offset, (long long)end);
        end += t->size; /* which was a number of the header */
    }
    if (end != bytes)
        return tg_bad_field(err, "header", "as many bytes of tensors as it says", AGAIN,
                            "%lld instead of %lld", (long long)bytes, (long long)end);
    for (int i = 0; i < file->count; i++) file->tensors[i].offset += data;
    if (file->count > 0) qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_name);
    for (int i = 1; i < file->count; i++)
        if (by_name(file->tensors + i - 1, file->tensors + i) == 0)
            return tg_bad_field(err, file->tensors[i].name.bytes, "every name once", AGAIN, "it twice");
    if (file->notes > 0) qsort(file->note, (size_t)file->notes, sizeof *file->note, by_key);
    for (int i = 1; i < file->notes; i++)
        if (by_key(file->note + i - 1, file->note + i) == 0)
            return tg_bad_field(err, "header", "every key of __metadata__ once", AGAIN, "%s twice",
                                file->note[i].key.bytes);
    return TG_OK;
}

/* Length of the header, checked against the file. */
static tg_status header_length(const tg_source *source, int64_t *length, tg_error *err) {
    uint8_t raw[LENGTH] = {0};
    uint64_t n = 0;
    if (source->size < LENGTH) return bad_header(err, "a file of less than 8 bytes");
    tg_status status = tg_source_read(source, 0, raw, LENGTH, err);
    if (status != TG_OK) return status;
    for (int i = 0; i < LENGTH; i++) n |= (uint64_t)raw[i] << 8 * i;
    if (n < 2 || n > TG_SAFETENSORS_HEADER || n > (uint64_t)source->size - LENGTH)
        return tg_bad_field(err, "header", "a safetensors header", "give a .safetensors file that is whole",
                            "%llu byte%s of header in a file of %lld", (unsigned long long)n, TG_S(n),
                            (long long)source->size);
    *length = (int64_t)n;
    return TG_OK;
}

tg_status tg_safetensors_open(tg_safetensors *file, tg_source source, tg_error *err) {
    *file = (tg_safetensors){.source = source};
    int64_t length = 0;
    tg_status status = header_length(&source, &length, err);
    if (status != TG_OK) return status;
    char *text = malloc((size_t)length);
    file->pool = malloc((size_t)length);
    if (text == NULL || file->pool == NULL) {
        status = tg_fail(err, TG_E_MEMORY, "no memory for a header of %lld bytes", (long long)length);
    } else if ((status = tg_source_read(&source, LENGTH, text, (size_t)length, err)) == TG_OK) {
        reader r = {.file = file, .json = tg_json_of(text, (size_t)length), .err = err};
        status = text[0] == '{' ? take_header(&r) : bad_header(err, "one that does not begin with {");
        if (status == TG_OK) status = check_all(file, LENGTH + length, source.size - LENGTH - length, err);
    }
    free(text);
    if (status != TG_OK && err != NULL) tg_error_printable(err);
    return status;
}

void tg_safetensors_close(tg_safetensors *file) {
    free(file->tensors);
    free(file->note);
    free(file->pool);
    *file = (tg_safetensors){0};
}

const tg_tensor *tg_safetensors_find(const tg_safetensors *file, const char *name) {
    char whole[512];
    if (file->before != NULL) {
        if (snprintf(whole, sizeof whole, "%s%s", file->before, name) >= (int)sizeof whole) return NULL;
        name = whole;
    }
    const tg_tensor wanted = {.name = {name, strlen(name)}};
    if (file->count == 0) return NULL;
    return bsearch(&wanted, file->tensors, (size_t)file->count, sizeof wanted, by_name);
}

tg_status tg_safetensors_read(const tg_safetensors *file, const tg_tensor *t, void *to, tg_error *err) {
    uint8_t *bytes = to;
    int64_t ahead = t->memory - t->size; /* bfloat16 goes to the second half, to be widened from there */
    tg_status status = tg_source_read(&file->source, t->offset, bytes + ahead, (size_t)t->size, err);
    if (status != TG_OK) return status;
    if (t->dtype == TG_DTYPE_BF16)
        for (int64_t i = 0; i < t->count; i++) {
            uint16_t half;
            memcpy(&half, bytes + ahead + 2 * i, 2);
            uint32_t whole = (uint32_t)half << 16;
            memcpy(bytes + 4 * i, &whole, 4);
        }
    if (t->dtype == TG_DTYPE_BOOL)
        for (int64_t i = 0; i < t->count; i++)
            if (bytes[i] > 1)
                return tg_bad_field(err, t->name.bytes, "0 or 1 for every truth value", AGAIN, "%d",
                                    bytes[i]);
    return TG_OK;
}

void tg_tensor_shape(const tg_tensor *t, char *to) {
    *to++ = '(';
    for (int d = 0; d < t->ndim; d++)
        to += snprintf(to, 22, d == 0 ? "%lld" : ", %lld", (long long)t->shape[d]);
    snprintf(to, 3, t->ndim == 1 ? ",)" : ")");
}
