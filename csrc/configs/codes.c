#include "configs/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "kernels/kernels.h"

#define AGAIN "the pack is damaged: make it again with tpugraphs pack"

tg_status tg_codes_widen(int8_t *wide, const int8_t *table, int64_t entries, tg_error *err) {
    for (int64_t e = 0; e < entries; e++) {
        int8_t *to = wide + e * 8;
        memcpy(to, table + e * TG_LAYOUT_DIGITS, TG_LAYOUT_DIGITS);
        to[6] = to[7] = 0;
        for (int i = 0; i < TG_LAYOUT_DIGITS; i++)
            if (to[i] < TG_DIGIT_MIN || to[i] > TG_DIGIT_MAX)
                return tg_bad_field(err, "config_table", "digits in -1..5", AGAIN, "%d in entry %lld", to[i],
                                    (long long)e);
    }
    return TG_OK;
}

static tg_status no_entry(const tg_codes *codes, int64_t row, int64_t at, int64_t code, tg_error *err) {
    tg_bad_field(err, "node_config_feat", "a number of an entry of the table", AGAIN,
                 "%lld (config %lld, node %lld, tensor %lld; the table has %lld entr%s)", (long long)code,
                 (long long)row, (long long)(at / TG_TENSORS), (long long)(at % TG_TENSORS),
                 (long long)codes->entries, codes->entries == 1 ? "y" : "ies");
    return TG_E_DATA;
}

/* One loop per size: eight bytes are written for every six, the last six alone. The number is read once, so a file
   that is changed meanwhile can give wrong digits, but none outside the table. */
#define ROW(name, type)                                                                                      \
    static int64_t name(const tg_codes *codes, int64_t row, int8_t *digits) {                                \
        const int64_t width = codes->K * TG_TENSORS, last = width - 1;                                       \
        const type *from = (const type *)codes->data + row * width;                                          \
        const int8_t *table = codes->table;                                                                  \
        const uint64_t entries = (uint64_t)codes->entries;                                                   \
        for (int64_t i = 0; i < width; i++) {                                                                \
            const uint64_t code = *(const volatile type *)(from + i);                                        \
            if (code >= entries) return i;                                                                   \
            if (i < last) memcpy(digits + i * TG_LAYOUT_DIGITS, table + code * 8, 8);                        \
            else memcpy(digits + i * TG_LAYOUT_DIGITS, table + code * 8, TG_LAYOUT_DIGITS);                  \
        }                                                                                                    \
        return -1;                                                                                           \
    }                                                                                                        \
    static int64_t name##_check(const tg_codes *codes, int64_t row) {                                        \
        const int64_t width = codes->K * TG_TENSORS;                                                         \
        const type *from = (const type *)codes->data + row * width;                                          \
        type most = 0;                                                                                       \
        for (int64_t i = 0; i < width; i++) most = from[i] > most ? from[i] : most;                          \
        if (width == 0 || (int64_t)most < codes->entries) return -1;                                         \
        for (int64_t i = 0; i < width; i++)                                                                  \
            if ((int64_t)from[i] >= codes->entries) return i;                                                \
        return -1;                                                                                           \
    }

ROW(row_of_1, uint8_t)
ROW(row_of_2, uint16_t)
ROW(row_of_4, uint32_t)

static int64_t code_at(const tg_codes *codes, int64_t index) {
    return codes->size == 1   ? ((const volatile uint8_t *)codes->data)[index]
           : codes->size == 2 ? ((const volatile uint16_t *)codes->data)[index]
                              : ((const volatile uint32_t *)codes->data)[index];
}

tg_status tg_codes_row(const tg_codes *codes, int64_t row, int8_t *digits, tg_error *err) {
    TG_ASSERT(row >= 0 && row < codes->C);
    const int64_t at = codes->size == 1   ? row_of_1(codes, row, digits)
                       : codes->size == 2 ? row_of_2(codes, row, digits)
                                          : row_of_4(codes, row, digits);
    if (at < 0) return TG_OK;
    return no_entry(codes, row, at, code_at(codes, row * codes->K * TG_TENSORS + at), err);
}

tg_status tg_codes_some(const tg_codes *codes, int64_t row, const int32_t *some, int32_t n, int8_t *digits,
                        tg_error *err) {
    TG_ASSERT(row >= 0 && row < codes->C);
    for (int32_t i = 0; i < n; i++)
        for (int t = 0; t < TG_TENSORS; t++) {
            const int64_t at = (int64_t)some[i] * TG_TENSORS + t,
                          code = code_at(codes, row * codes->K * TG_TENSORS + at);
            if (code >= codes->entries) return no_entry(codes, row, at, code, err);
            memcpy(digits + ((int64_t)i * TG_TENSORS + t) * TG_LAYOUT_DIGITS, codes->table + code * 8,
                   TG_LAYOUT_DIGITS);
        }
    return TG_OK;
}

tg_status tg_codes_check(const tg_codes *codes, int64_t begin, int64_t end, tg_error *err) {
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = codes->size == 1   ? row_of_1_check(codes, row)
                           : codes->size == 2 ? row_of_2_check(codes, row)
                                              : row_of_4_check(codes, row);
        if (at >= 0) return no_entry(codes, row, at, code_at(codes, row * codes->K * TG_TENSORS + at), err);
    }
    return TG_OK;
}

struct tg_encoder {
    int size, carried;
    int64_t entries, limit, room;
    int8_t *table;                  /* (room,6) */
    int8_t carry[TG_LAYOUT_DIGITS]; /* digits of a code cut by the end of a call */
    int32_t codes[TG_ENCODE_MOST / TG_LAYOUT_DIGITS + 1];
    int32_t number[TG_LAYOUT_CODES]; /* of each base-7 code, 0 if it has none yet, else one more */
};

tg_encoder *tg_encoder_new(int size) {
    tg_encoder *e = calloc(1, sizeof *e);
    if (e == NULL) return NULL;
    e->size = size;
    e->limit = size == 1 ? 256 : size == 2 ? 65536 : TG_LAYOUT_CODES;
    e->table = malloc((size_t)e->limit * TG_LAYOUT_DIGITS);
    if (e->table == NULL) {
        free(e);
        return NULL;
    }
    return e;
}

void tg_encoder_free(tg_encoder *e) {
    if (e != NULL) free(e->table);
    free(e);
}

const int8_t *tg_encoder_table(const tg_encoder *e, int64_t *entries) {
    *entries = e->entries;
    return e->table;
}

/* The number of a code that has none yet; -1 when there are no more. */
static int32_t enter(tg_encoder *e, int32_t code, const int8_t *digits) {
    if (e->entries == e->limit) return -1;
    memcpy(e->table + e->entries * TG_LAYOUT_DIGITS, digits, TG_LAYOUT_DIGITS);
    e->number[code] = (int32_t)++e->entries;
    return e->number[code] - 1;
}

#define NUMBERS(name, type)                                                                                  \
    static int name(tg_encoder *e, const int8_t *digits, int64_t n, type *to) {                              \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            int32_t number = e->number[e->codes[i]] - 1;                                                     \
            if (number < 0 && (number = enter(e, e->codes[i], digits + i * TG_LAYOUT_DIGITS)) < 0) return 0; \
            to[i] = (type)number;                                                                            \
        }                                                                                                    \
        return 1;                                                                                            \
    }

NUMBERS(numbers_of_1, uint8_t)
NUMBERS(numbers_of_2, uint16_t)
NUMBERS(numbers_of_4, uint32_t)

/* to(n) numbers of n whole codes. */
static int encode(tg_encoder *e, const int8_t *digits, int64_t n, void *to) {
    if (!tg_kernel_table()->base7_encode(n, digits, e->codes)) return 0; /* no digits: broken promise */
    return e->size == 1   ? numbers_of_1(e, digits, n, to)
           : e->size == 2 ? numbers_of_2(e, digits, n, to)
                          : numbers_of_4(e, digits, n, to);
}

int tg_encoder_put(tg_encoder *e, const int8_t *digits, int64_t n, void *to, size_t *bytes) {
    *bytes = 0;
    if (e->carried > 0) {
        while (e->carried < TG_LAYOUT_DIGITS && n > 0) e->carry[e->carried++] = *digits++, n--;
        if (e->carried < TG_LAYOUT_DIGITS) return 1;
        if (!encode(e, e->carry, 1, to)) return 0;
        e->carried = 0;
        *bytes = (size_t)e->size;
        to = (char *)to + e->size;
    }
    const int64_t whole = n / TG_LAYOUT_DIGITS, rest = n % TG_LAYOUT_DIGITS;
    if (!encode(e, digits, whole, to)) return 0;
    *bytes += (size_t)(whole * e->size);
    memcpy(e->carry, digits + n - rest, (size_t)rest);
    e->carried = (int)rest;
    return 1;
}
