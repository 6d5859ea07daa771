/* libFuzzer target of packs: any bytes as a file. The checksums are put right first, or nothing would ever get past them;
   then everything that opening, checking and reading rows does is done. */
#include <stdlib.h>
#include <string.h>

#include "io/crc.h"
#include "io/pack.h"

#define MAX_ROW (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++, v >>= 8) p[i] = (uint8_t)v;
}

/* The checksums of all arrays as they are, and of the header. */
static void mend(const tg_pack *pack, uint8_t *bytes) {
    for (int i = 0; i < TG_PARTS; i++)
        if (pack->part[i].itemsize != 0)
            put32(bytes + 64 + 64 * tg_part_entry((tg_part)i) + 4,
                  tg_crc32(0, bytes + pack->part[i].offset, (size_t)pack->part[i].bytes));
    put32(bytes + TG_PACK_HEADER - 4, tg_crc32(0, bytes, TG_PACK_HEADER - 4));
}

/* Decode rows as the model does: into room of exactly one row. */
static void read_rows(const tg_pack *pack, const uint8_t *bytes) {
    const tg_pack_array *a = &pack->part[TG_CODES], *t = &pack->part[TG_TABLE];
    const int64_t C = a->shape[0], K = a->shape[1];
    tg_error err;
    if (a->itemsize == 0 || C == 0 || K > MAX_ROW) return;
    int8_t *wide = malloc((size_t)t->shape[0] * 8 + 8), *row = malloc((size_t)(K * TG_DIGITS) + 1);
    const tg_codes codes = {bytes + a->offset, a->itemsize, C, K, t->shape[0], wide};
    if (wide != NULL && row != NULL &&
        tg_codes_widen(wide, (const int8_t *)bytes + t->offset, t->shape[0], &err) == TG_OK)
        for (int64_t r = 0; r < C; r += 1 + C / 4)
            if (tg_codes_row(&codes, r, row, &err) == TG_OK)
                for (int64_t i = 0; i < K * TG_DIGITS; i++)
                    if (row[i] < TG_DIGIT_MIN || row[i] > TG_DIGIT_MAX) abort();
    free(wide);
    free(row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err;
    tg_pack pack;
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) return 0;
    memcpy(bytes, data, size);
    if (size >= TG_PACK_HEADER) put32(bytes + TG_PACK_HEADER - 4, tg_crc32(0, bytes, TG_PACK_HEADER - 4));
    if (tg_pack_parse(&pack, bytes, size < TG_PACK_HEADER ? size : TG_PACK_HEADER, (int64_t)size, &err) ==
        TG_OK) {
        read_rows(&pack, bytes);
        tg_pack_check(&pack, bytes, NULL, &err);
        mend(&pack, bytes);
        if (tg_pack_parse(&pack, bytes, TG_PACK_HEADER, (int64_t)size, &err) != TG_OK) abort();
        if (tg_pack_check(&pack, bytes, NULL, &err) == TG_OK) read_rows(&pack, bytes);
    }
    free(bytes);
    return 0;
}
