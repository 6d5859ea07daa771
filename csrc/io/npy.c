#include "io/npy.h"

#include <string.h>

#include "base/extent.h"

#define SAVE_AGAIN "save the array again with numpy.savez"
#define NUMERIC    "bool, int8..64, uint8..64 or float16..64"

size_t tg_npy_header_size(const uint8_t *bytes) {
    if (memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3) return 0;
    size_t n = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] == 1) return 10 + n;
    return 12 + (n | (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24);
}

/* A reader of the dict literal that NumPy writes. */
typedef struct text {
    const char *at, *end;
} text;

static int peek(text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t')) t->at++;
    return t->at < t->end ? (unsigned char)*t->at : -1;
}

static int skip(text *t, int c) {
    if (peek(t) != c) return 0;
    t->at++;
    return 1;
}

/* A quoted string without escapes, copied to to(size). */
static int quoted(text *t, char *to, size_t size) {
    int quote = peek(t);
    if (quote != '\'' && quote != '"') return 0;
    size_t n = 0;
    for (t->at++; t->at < t->end && *t->at != quote; t->at++) {
        if (n + 1 >= size || *t->at < 32 || *t->at > 126 || *t->at == '\\') return 0;
        to[n++] = *t->at;
    }
    to[n] = 0;
    return skip(t, quote);
}

static int word(text *t, const char *expected) {
    size_t n = strlen(expected);
    peek(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, expected, n) != 0) return 0;
    t->at += n;
    return 1;
}

static int integer(text *t, int64_t *value) {
    if (peek(t) < '0' || *t->at > '9') return 0;
    for (*value = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *t->at - '0', value))
            return 0;
    if (t->at < t->end && *t->at == 'L') t->at++; /* Python 2 */
    return 1;
}

/* "(", "(3,)", "(3, 4)" ... into shape(3). Returns the number of dimensions (also when above 3) or -1. */
static int tuple(text *t, int64_t *shape) {
    if (!skip(t, '(')) return -1;
    int n = 0, comma = 1;
    while (peek(t) != ')') {
        int64_t length;
        if (!comma || !integer(t, &length)) return -1;
        if (n < 3) shape[n] = length;
        if (++n > 64) return -1;
        comma = skip(t, ',');
    }
    return skip(t, ')') && (n != 1 || comma) ? n : -1;
}

static tg_status parse_dtype(const char *name, const char *field, tg_npy *npy, tg_error *err) {
    if (strchr(name, 'O') != NULL)
        return tg_bad_field(err, field, "an array of numbers",
                            "object arrays (pickles) are never loaded: save numbers with numpy.savez",
                            "an object array (dtype %s)", name);
    const char *p = name;
    char order = *p == '<' || *p == '>' || *p == '|' || *p == '=' ? *p++ : '=';
    tg_number *type = &npy->type;
    type->kind = *p;
    type->itemsize = *p != 0 && p[1] >= '1' && p[1] <= '8' && p[2] == 0 ? p[1] - '0' : 0;
    int power = type->itemsize == 1 || type->itemsize == 2 || type->itemsize == 4 || type->itemsize == 8;
    int good = type->kind == 'b'                        ? type->itemsize == 1
               : type->kind == 'f'                      ? power && type->itemsize > 1
               : type->kind == 'i' || type->kind == 'u' ? power
                                                        : 0;
    if (!good || (order == '|' && type->itemsize > 1))
        return tg_bad_field(err, field, "dtype " NUMERIC, SAVE_AGAIN, "dtype '%s'", name);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    type->swapped = order == '>' && type->itemsize > 1;
#else
    type->swapped = order == '<' && type->itemsize > 1;
#endif
    return TG_OK;
}

/* The dict: each of the three keys once, in any order. Returns dimensions in npy->ndim, dtype text in
 * name(32). */
static int parse_dict(text *t, tg_npy *npy, char *name) {
    int seen = 0;
    if (!skip(t, '{')) return 0;
    while (peek(t) != '}') {
        char key[16];
        int which;
        if (!quoted(t, key, sizeof key) || !skip(t, ':')) return 0;
        if (strcmp(key, "descr") == 0) {
            which = 1;
            if (peek(t) == '[') { /* fields: a structured array */
                strcpy(name, "structured");
                return -1;
            }
            if (!quoted(t, name, 32)) return 0;
        } else if (strcmp(key, "fortran_order") == 0) {
            which = 2;
            npy->fortran = word(t, "True");
            if (!npy->fortran && !word(t, "False")) return 0;
        } else if (strcmp(key, "shape") == 0) {
            which = 4;
            npy->ndim = tuple(t, npy->shape);
            if (npy->ndim < 0) return 0;
        } else {
            return 0;
        }
        if (seen & which) return 0;
        seen |= which;
        if (!skip(t, ',') && peek(t) != '}') return 0;
    }
    return skip(t, '}') && peek(t) == -1 && seen == 7;
}

tg_status tg_npy_parse(const uint8_t *bytes, size_t n, int64_t size, const char *field, tg_npy *npy,
                       tg_error *err) {
    *npy = (tg_npy){.shape = {1, 1, 1}, .count = 1, .header = (int64_t)n};
    size_t start = bytes[6] == 1 ? 10 : 12;
    text t = {(const char *)bytes + start, (const char *)bytes + n};
    char name[32] = "";
    int parsed = parse_dict(&t, npy, name);
    if (parsed < 0) return tg_bad_field(err, field, "dtype " NUMERIC, SAVE_AGAIN, "a structured dtype");
    if (!parsed)
        return tg_bad_field(err, field, "a .npy header with descr, fortran_order and shape", SAVE_AGAIN,
                            "something else");
    tg_status status = parse_dtype(name, field, npy, err);
    if (status != TG_OK) return status;
    if (npy->ndim > 3) return tg_bad_field(err, field, "at most 3 dimensions", SAVE_AGAIN, "%d", npy->ndim);
    int64_t total = tg_extent(npy->shape, npy->ndim, npy->type.itemsize);
    if (total < 0)
        return tg_bad_field(err, field, "a shape that can exist", SAVE_AGAIN, "2^63 bytes or more");
    npy->count = total / npy->type.itemsize;
    if (__builtin_add_overflow(total, npy->header, &total) || total != size)
        return tg_bad_field(err, field, "as many bytes as its header says", SAVE_AGAIN,
                            "shape (%lld, %lld, %lld) of %d-byte items in a member of %lld bytes",
                            (long long)npy->shape[0], (long long)npy->shape[1], (long long)npy->shape[2],
                            npy->type.itemsize, (long long)size);
    return TG_OK;
}
