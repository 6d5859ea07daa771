#include "data/pack.h"

#include <stdlib.h>
#include <string.h>

#include "data/crc.h"
#include "data/zip.h"

#define AGAIN    "the pack is damaged: make it again with tpugraphs pack"
#define UPDATE   "make it again with this version's tpugraphs pack"
#define ENTRY_AT 64
#define ENTRY    64
#define CRC_AT   (TG_PACK_HEADER - 4)
#define MOST     ((int64_t)1 << 48) /* of any length or size: products of two stay below 2^63 where needed */

static const uint8_t magic[8] = {0x89, 'T', 'G', 'P', 'A', 'C', 'K', '\n'};

/* One letter per length, or a number: which lengths must agree. */
static const struct {
    const char *name;
    char type;
    int itemsize; /* 0: any of 1, 2, 4 */
    int ndim;
    char letter[3];
    int64_t fixed[3]; /* where the letter is '=' */
    int layout, tile;
} parts[TG_PARTS] = {
    [TG_NODE_FEAT] = {"node_feat", 'f', 4, 2, "N=", {0, TG_NODE_FEATURES}, 1, 1},
    [TG_NODE_OPCODE] = {"node_opcode", 'u', 1, 1, "N", {0}, 1, 1},
    [TG_EDGE_INDEX] = {"edge_index", 'i', 8, 2, "E=", {0, 2}, 1, 1},
    [TG_NODE_SPLITS] = {"node_splits", 'i', 8, 1, "S", {0}, 1, 1},
    [TG_CONFIG_RUNTIME] = {"config_runtime", 'i', 8, 1, "C", {0}, 1, 1},
    [TG_CONFIG_NODES] = {"node_config_ids", 'i', 8, 1, "K", {0}, 1, 0},
    [TG_CONFIG_FEAT] = {"config_feat", 'f', 4, 2, "C=", {0, TG_TILE_FEATURES}, 0, 1},
    [TG_NORMALIZERS] = {"config_runtime_normalizers", 'i', 8, 1, "C", {0}, 0, 1},
    [TG_CODES] = {"node_config_feat", 'u', 0, 3, {'C', 'K', '='}, {0, 0, TG_TENSORS}, 1, 0},
    [TG_TABLE] = {"config_table", 'i', 1, 2, "T=", {0, TG_LAYOUT_DIGITS}, 1, 0},
};

const char *tg_part_name(tg_part part) { return parts[part].name; }
int tg_part_ndim(tg_part part) { return parts[part].ndim; }
char tg_part_type(tg_part part) { return parts[part].type; }

static uint64_t load(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = n; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static void store(uint8_t *p, int n, uint64_t v) {
    for (int i = 0; i < n; i++, v >>= 8) p[i] = (uint8_t)v;
}

int64_t tg_pack_place(tg_part part, int64_t end) {
    const int64_t step = part == TG_CODES ? 4096 : 64;
    return end > INT64_MAX - step ? INT64_MAX : (end + step - 1) / step * step;
}

static int has(tg_pack_kind kind, int part) {
    return kind == TG_PACK_LAYOUT ? parts[part].layout : parts[part].tile;
}

static tg_status bad(tg_error *err, int part, const char *expected, int64_t found) {
    return tg_bad_field(err, parts[part].name, expected, AGAIN, "%lld", (long long)found);
}

/* Bytes of an array, or -1 when the product overflows. */
static int64_t bytes_of(const tg_pack_array *a, int ndim) {
    int64_t bytes = a->itemsize;
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(bytes, a->shape[i], &bytes)) return -1;
    return bytes;
}

/* Entry `part` of head; `*end` is where the array before it ends, and then where this one does. */
static tg_status parse_entry(tg_pack *pack, const uint8_t *head, int part, int64_t *end, tg_error *err) {
    const uint8_t *p = head + ENTRY_AT + part * ENTRY;
    tg_pack_array *a = &pack->part[part];
    *a = (tg_pack_array){0, 0, 0, 0, {1, 1, 1}};
    static const uint8_t zero[ENTRY];
    if (!has(pack->kind, part)) {
        if (memcmp(p, zero, ENTRY) == 0) return TG_OK;
        return tg_bad_field(err, parts[part].name, "no such array in this kind of graph", AGAIN, "one");
    }
    uint64_t raw[5];
    for (int i = 0; i < 5; i++)
        if ((raw[i] = load(p + 8 + 8 * i, 8)) > (uint64_t)MOST)
            return tg_bad_field(err, parts[part].name, "an array inside the file", AGAIN,
                                "a length or place of %llu", (unsigned long long)raw[i]);
    a->itemsize = (int)(load(p, 4) & 0xff), a->crc = (uint32_t)load(p + 4, 4);
    a->offset = (int64_t)raw[0], a->bytes = (int64_t)raw[1];
    for (int i = 0; i < parts[part].ndim; i++) a->shape[i] = (int64_t)raw[2 + i];
    const int size = a->itemsize, fits = parts[part].itemsize == size ||
                                         (parts[part].itemsize == 0 && (size == 1 || size == 2 || size == 4));
    if (load(p, 4) > 0xff || !fits) return bad(err, part, "a known item size", (int64_t)load(p, 4));
    for (int i = 0; i < parts[part].ndim; i++)
        if (parts[part].letter[i] == '=' && a->shape[i] != parts[part].fixed[i])
            return bad(err, part, "the last length of the schema", a->shape[i]);
    if (a->bytes != bytes_of(a, parts[part].ndim))
        return bad(err, part, "as many bytes as the shape says", a->bytes);
    if (a->offset != tg_pack_place((tg_part)part, *end))
        return bad(err, part, "the array behind the one before", a->offset);
    if (a->offset > pack->size || a->bytes > pack->size - a->offset)
        return bad(err, part, "an array inside the file", a->offset);
    *end = a->offset + a->bytes;
    return TG_OK;
}

/* Lengths that stand in several shapes are equal. */
static tg_status check_shapes(const tg_pack *pack, tg_error *err) {
    for (int i = 0; i < TG_PARTS; i++)
        for (int d = 0; d < parts[i].ndim; d++)
            for (int j = 0; j < i; j++)
                for (int e = 0; e < parts[j].ndim; e++)
                    if (has(pack->kind, i) && has(pack->kind, j) && parts[i].letter[d] != '=' &&
                        parts[i].letter[d] == parts[j].letter[e] &&
                        pack->part[i].shape[d] != pack->part[j].shape[e])
                        return bad(err, i, "lengths that agree with the other arrays",
                                   pack->part[i].shape[d]);
    if (pack->part[TG_NODE_FEAT].shape[0] < 1) return bad(err, TG_NODE_FEAT, "at least one node", 0);
    if (pack->kind != TG_PACK_LAYOUT) return TG_OK;
    const int64_t entries = pack->part[TG_TABLE].shape[0], codes = pack->part[TG_CODES].bytes;
    const int size = pack->part[TG_CODES].itemsize;
    if (entries > TG_LAYOUT_CODES || (size < 4 && entries > (int64_t)1 << (8 * size)) ||
        (entries == 0 && codes > 0))
        return bad(err, TG_TABLE, "as many entries as there are numbers", entries);
    return TG_OK;
}

static tg_status not_a_pack(tg_error *err, const char *expected, const char *remedy, const char *found) {
    return tg_bad_field(err, "header", expected, remedy, "%s", found);
}

tg_status tg_pack_parse(tg_pack *pack, const uint8_t *head, size_t n, int64_t size, tg_error *err) {
    *pack = (tg_pack){.size = size};
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    return not_a_pack(err, "a little-endian machine", "use the .npz files", "another");
#endif
    if (n < sizeof magic || memcmp(head, magic, sizeof magic) != 0)
        return not_a_pack(err, "a pack as tpugraphs pack writes it", "check the path",
                          size == 0 ? "an empty file" : "something else");
    if (n < TG_PACK_HEADER) return not_a_pack(err, "a whole header", AGAIN, "a file that was cut off");
    if (load(head + CRC_AT, 4) != tg_crc32(0, head, CRC_AT))
        return not_a_pack(err, "the header's checksum", AGAIN, "another");
    if (load(head + 8, 4) != TG_PACK_VERSION)
        return tg_bad_field(err, "version", "version 1 of the format", UPDATE, "version %llu",
                            (unsigned long long)load(head + 8, 4));
    if (load(head + 16, 8) != (uint64_t)size)
        return tg_bad_field(err, "file", "the size in the header", AGAIN, "%lld bytes instead of %llu",
                            (long long)size, (unsigned long long)load(head + 16, 8));
    const uint64_t kind = load(head + 12, 4);
    if (kind > TG_PACK_TILE || load(head + 44, 4) != TG_PARTS)
        return not_a_pack(err, "a layout or a tile graph", UPDATE, "another kind");
    pack->kind = (tg_pack_kind)kind;
    if (load(head + 24, 8) > (uint64_t)INT64_MAX)
        return not_a_pack(err, "a size of the source", AGAIN, "an impossible one");
    pack->origin =
        (tg_origin){(int64_t)load(head + 24, 8), (int64_t)load(head + 32, 8), (uint32_t)load(head + 40, 4)};
    int64_t end = TG_PACK_HEADER;
    for (int i = 0; i < TG_PARTS; i++) {
        tg_status status = parse_entry(pack, head, i, &end, err);
        if (status != TG_OK) return status;
    }
    if (end != size)
        return tg_bad_field(err, "file", "a file that ends with its last array", AGAIN,
                            "%lld bytes instead of %lld", (long long)size, (long long)end);
    tg_status status = check_shapes(pack, err);
    if (status != TG_OK) return status;
    uint8_t again[TG_PACK_HEADER]; /* a header of these fields: also what has no meaning is as it must be */
    tg_pack_header(pack, again);
    if (memcmp(head, again, sizeof again) == 0) return TG_OK;
    return not_a_pack(err, "zeros where nothing is defined", AGAIN, "something else");
}

void tg_pack_header(tg_pack *pack, uint8_t *head) {
    memset(head, 0, TG_PACK_HEADER);
    memcpy(head, magic, sizeof magic);
    int64_t end = TG_PACK_HEADER;
    for (int i = 0; i < TG_PARTS; i++) {
        tg_pack_array *a = &pack->part[i];
        if (a->itemsize == 0) continue;
        a->offset = tg_pack_place((tg_part)i, end);
        a->bytes = bytes_of(a, parts[i].ndim);
        end = a->offset + a->bytes;
        uint8_t *p = head + ENTRY_AT + i * ENTRY;
        store(p, 4, (uint64_t)a->itemsize), store(p + 4, 4, a->crc);
        store(p + 8, 8, (uint64_t)a->offset), store(p + 16, 8, (uint64_t)a->bytes);
        for (int d = 0; d < parts[i].ndim; d++) store(p + 24 + 8 * d, 8, (uint64_t)a->shape[d]);
    }
    pack->size = end;
    store(head + 8, 4, TG_PACK_VERSION), store(head + 12, 4, (uint64_t)pack->kind);
    store(head + 16, 8, (uint64_t)end);
    store(head + 24, 8, (uint64_t)pack->origin.size), store(head + 32, 8, (uint64_t)pack->origin.changed);
    store(head + 40, 4, pack->origin.directory), store(head + 44, 4, TG_PARTS);
    store(head + CRC_AT, 4, tg_crc32(0, head, CRC_AT));
}

tg_status tg_pack_check_part(const tg_pack *pack, const uint8_t *bytes, tg_part part, tg_error *err) {
    const tg_pack_array *a = &pack->part[part];
    const uint32_t crc = tg_crc32(0, bytes + a->offset, (size_t)a->bytes);
    if (crc == a->crc || a->itemsize == 0) return TG_OK;
    return tg_bad_field(err, parts[part].name, "the checksum in the header", AGAIN, "%08x instead of %08x",
                        (unsigned)crc, (unsigned)a->crc);
}

/* Entries that are digits, each once. */
static tg_status check_table(const int8_t *table, int64_t entries, int8_t *wide, tg_error *err) {
    tg_status status = tg_codes_widen(wide, table, entries, err);
    uint8_t *seen = status == TG_OK ? calloc(1, TG_LAYOUT_CODES) : NULL;
    if (status != TG_OK) return status;
    if (seen == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to check a pack");
    for (int64_t e = 0; e < entries && status == TG_OK; e++) {
        int32_t code = 0;
        for (int i = TG_LAYOUT_DIGITS; i-- > 0;) code = code * TG_DIGIT_VALUES + wide[e * 8 + i] + 1;
        if (seen[code]++) status = bad(err, TG_TABLE, "entries that are all different", e);
    }
    free(seen);
    return status;
}

static tg_status check_codes(const tg_pack *pack, const uint8_t *bytes, tg_cancel *cancel, tg_error *err) {
    const tg_pack_array *a = &pack->part[TG_CODES], *t = &pack->part[TG_TABLE];
    int8_t *wide = malloc((size_t)t->shape[0] * 8 + 8);
    if (wide == NULL) return tg_fail(err, TG_E_MEMORY, "no memory to check a pack");
    tg_status status = check_table((const int8_t *)bytes + t->offset, t->shape[0], wide, err);
    const tg_codes codes = {bytes + a->offset, a->itemsize, a->shape[0], a->shape[1], t->shape[0], wide};
    const int64_t step = (1 << 20) / (a->shape[1] * TG_TENSORS + 1) + 1;
    for (int64_t row = 0; row < codes.C && codes.K > 0 && status == TG_OK; row += step) {
        if (tg_cancelled(cancel)) status = tg_fail(err, TG_E_CANCELLED, "cancelled");
        else status = tg_codes_check(&codes, row, codes.C - row < step ? codes.C : row + step, err);
    }
    free(wide);
    return status;
}

tg_status tg_pack_check(const tg_pack *pack, const uint8_t *bytes, tg_cancel *cancel, tg_error *err) {
    int64_t end = TG_PACK_HEADER;
    for (int i = 0; i < TG_PARTS; i++) {
        const tg_pack_array *a = &pack->part[i];
        if (a->itemsize == 0) continue;
        for (; end < a->offset; end++)
            if (bytes[end] != 0) return bad(err, i, "zeros before it", bytes[end]);
        tg_status status = tg_pack_check_part(pack, bytes, (tg_part)i, err);
        if (status != TG_OK) return status;
        end = a->offset + a->bytes;
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
    }
    return pack->kind == TG_PACK_LAYOUT ? check_codes(pack, bytes, cancel, err) : TG_OK;
}
