#include "io/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/extent.h"
#include "io/crc.h"

#define AGAIN    "the pack is damaged: make it again with tpugraphs pack"
#define UPDATE   "make it again with this version's tpugraphs pack"
#define ENTRY_AT 64
#define ENTRY    64
#define CRC_AT   (TG_PACK_HEADER - 4)
#define MOST     ((int64_t)1 << 48) /* of any length or size: products of two stay below 2^63 where needed */

static const uint8_t magic[8] = {0x89, 'T', 'G', 'P', 'A', 'C', 'K', '\n'};

enum { IN_LAYOUT = 1, IN_TILE = 2, IN_ANY = 4, MAYBE = 8 }; /* kinds that have an array, or may */

/* One letter per length, or a number: which lengths must agree. */
static const struct {
    const char *name;
    char type;
    int itemsize; /* 0: any of 1, 2, 4 */
    int ndim;
    char letter[3];
    int64_t fixed[3]; /* where the letter is '=' */
    int kinds;
} parts[TG_PARTS] = {
    [TG_NODE_FEAT] = {"node_feat", 'f', 4, 2, "N=", {0, TG_NODE_FEATURES}, IN_LAYOUT | IN_TILE},
    [TG_NODE_OPCODE] = {"node_opcode", 'u', 1, 1, "N", {0}, IN_LAYOUT | IN_TILE},
    [TG_EDGE_INDEX] = {"edge_index", 'i', 8, 2, "E=", {0, 2}, IN_LAYOUT | IN_TILE},
    [TG_NODE_SPLITS] = {"node_splits", 'i', 8, 1, "S", {0}, IN_LAYOUT | IN_TILE},
    [TG_CONFIG_RUNTIME] = {"config_runtime", 'i', 8, 1, "C", {0}, IN_LAYOUT | IN_TILE},
    [TG_CONFIG_NODES] = {"node_config_ids", 'i', 8, 1, "K", {0}, IN_LAYOUT},
    [TG_CONFIG_FEAT] = {"config_feat", 'f', 4, 2, "C=", {0, TG_TILE_FEATURES}, IN_TILE},
    [TG_NORMALIZERS] = {"config_runtime_normalizers", 'i', 8, 1, "C", {0}, IN_TILE},
    [TG_CODES] = {"node_config_feat", 'u', 0, 3, {'C', 'K', '='}, {0, 0, TG_TENSORS}, IN_LAYOUT},
    [TG_TABLE] = {"config_table", 'i', 1, 2, "T=", {0, TG_LAYOUT_DIGITS}, IN_LAYOUT},
    [TG_ANY_NODES] = {"node_feat", 'f', 4, 2, "NF", {0}, IN_ANY},
    [TG_ANY_OPCODE] = {"node_opcode", 'u', 1, 1, "N", {0}, IN_ANY | MAYBE},
    [TG_ANY_EDGES] = {"edge_index", 'i', 8, 2, "E=", {0, 2}, IN_ANY},
    [TG_ANY_GRAPH] = {"graph_feat", 'f', 4, 1, "G", {0}, IN_ANY | MAYBE},
    [TG_ANY_RUNTIME] = {"runtime", '?', 8, 1, "C", {0}, IN_ANY},
    [TG_ANY_VALID] = {"valid", 'u', 1, 1, "C", {0}, IN_ANY | MAYBE},
    [TG_ANY_REPEATS] = {"repeats", 'f', 8, 2, "CR", {0}, IN_ANY | MAYBE},
    [TG_ANY_CONFIGS] = {"config_feat", 'f', 4, 2, "CT", {0}, IN_ANY | MAYBE},
    [TG_ANY_IDS] = {"node_config_ids", 'i', 8, 1, "K", {0}, IN_ANY | MAYBE},
    [TG_ANY_DIGITS] = {"node_config_feat", 'i', 1, 3, {'C', 'K', 'D'}, {0}, IN_ANY | MAYBE},
    [TG_ANY_SCHEMA] = {"schema", 'u', 1, 1, "J", {0}, IN_ANY},
};

const char *tg_part_name(tg_part part) { return parts[part].name; }
int tg_part_ndim(tg_part part) { return parts[part].ndim; }
int tg_part_itemsize(tg_part part) { return parts[part].itemsize; }
char tg_part_type(tg_part part) { return parts[part].type; }
int tg_part_entry(tg_part part) { return part < TG_ANY_NODES ? part : part - TG_ANY_NODES; }

int64_t tg_part_last(tg_part part) {
    const int last = parts[part].ndim - 1;
    return parts[part].letter[last] == '=' ? parts[part].fixed[last] : -1;
}

int tg_pack_takes(tg_pack_kind kind, tg_part part) { return parts[part].kinds >> kind & 1; }

static uint64_t version_of(tg_pack_kind kind) { return kind == TG_PACK_ANY ? 2 : 1; }
static uint32_t entries_of(tg_pack_kind kind) {
    return kind == TG_PACK_ANY ? TG_PARTS - TG_ANY_NODES : TG_ANY_NODES;
}

static uint64_t load(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = n; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static void store(uint8_t *p, int n, uint64_t v) {
    for (int i = 0; i < n; i++, v >>= 8) p[i] = (uint8_t)v;
}

int64_t tg_pack_place(tg_part part, int64_t end) {
    const int64_t step = part == TG_CODES || part == TG_ANY_DIGITS ? 4096 : 64;
    return end > INT64_MAX - step ? INT64_MAX : (end + step - 1) / step * step;
}

static tg_status bad(tg_error *err, int part, const char *expected, int64_t found) {
    return tg_bad_field(err, parts[part].name, expected, AGAIN, "%lld", (long long)found);
}

static int is_zero(const uint8_t *p, int n) {
    while (n > 0 && p[n - 1] == 0) n--;
    return n == 0;
}

/* Item size and type of an entry. */
static tg_status parse_type(tg_pack_array *a, const uint8_t *p, int part, tg_error *err) {
    const uint64_t size = load(p, 4), type = load(p + 48, 8);
    a->itemsize = (int)(size & 0xff);
    a->type = parts[part].type != '?' ? parts[part].type : (char)(type & 0x7f);
    const int fits = parts[part].itemsize != 0 ? size == (uint64_t)parts[part].itemsize
                                               : size == 1 || size == 2 || size == 4;
    if (!fits) return bad(err, part, "a known item size", (int64_t)size);
    if (parts[part].type == '?' && type != 'f' && type != 'i')
        return bad(err, part, "a known type", (int64_t)(type & INT64_MAX));
    return TG_OK;
}

/* Entry `part` of head; `*end` is where the array before it ends, and then where this one does. */
static tg_status parse_entry(tg_pack *pack, const uint8_t *head, int part, int64_t *end, tg_error *err) {
    const uint8_t *p = head + ENTRY_AT + tg_part_entry((tg_part)part) * ENTRY;
    tg_pack_array *a = &pack->part[part];
    const int there = !is_zero(p, ENTRY), taken = tg_pack_takes(pack->kind, (tg_part)part);
    if (!there && (!taken || (parts[part].kinds & MAYBE) != 0)) return TG_OK;
    if (!taken) {
        return tg_bad_field(err, parts[part].name, "no such array in this kind of graph", AGAIN, "one");
    }
    uint64_t raw[5];
    for (int i = 0; i < 5; i++)
        if ((raw[i] = load(p + 8 + 8 * i, 8)) > (uint64_t)MOST)
            return tg_bad_field(err, parts[part].name, "an array inside the file", AGAIN,
                                "a length or place of %llu", (unsigned long long)raw[i]);
    a->crc = (uint32_t)load(p + 4, 4);
    a->offset = (int64_t)raw[0], a->bytes = (int64_t)raw[1];
    for (int i = 0; i < parts[part].ndim; i++) a->shape[i] = (int64_t)raw[2 + i];
    tg_status status = parse_type(a, p, part, err);
    if (status != TG_OK) return status;
    for (int i = 0; i < parts[part].ndim; i++)
        if (parts[part].letter[i] == '=' && a->shape[i] != parts[part].fixed[i])
            return bad(err, part, "the last length of the schema", a->shape[i]);
    if (a->bytes != tg_extent(a->shape, parts[part].ndim, a->itemsize))
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
                    if (pack->part[i].itemsize != 0 && pack->part[j].itemsize != 0 &&
                        parts[i].letter[d] != '=' && parts[i].letter[d] == parts[j].letter[e] &&
                        pack->part[i].shape[d] != pack->part[j].shape[e])
                        return bad(err, i, "lengths that agree with the other arrays",
                                   pack->part[i].shape[d]);
    const tg_part nodes = pack->kind == TG_PACK_ANY ? TG_ANY_NODES : TG_NODE_FEAT;
    if (pack->part[nodes].shape[0] < 1) return bad(err, (int)nodes, "at least one node", 0);
    const int digits = pack->part[TG_ANY_DIGITS].itemsize != 0, ids = pack->part[TG_ANY_IDS].itemsize != 0;
    if (digits != ids) return bad(err, digits ? TG_ANY_DIGITS : TG_ANY_IDS, "both nodes and digits", 1);
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
    const uint64_t version = load(head + 8, 4), kind = load(head + 12, 4);
    if (version != 1 && version != 2)
        return tg_bad_field(err, "version", "version 1 or 2 of the format", UPDATE, "version %llu",
                            (unsigned long long)version);
    if (load(head + 16, 8) != (uint64_t)size)
        return tg_bad_field(err, "file", "the size in the header", AGAIN, "%lld bytes instead of %llu",
                            (long long)size, (unsigned long long)load(head + 16, 8));
    if (kind > TG_PACK_ANY) return not_a_pack(err, "a known kind of graph", UPDATE, "another kind");
    pack->kind = (tg_pack_kind)kind;
    if (version != version_of(pack->kind))
        return tg_bad_field(err, "version",
                            version == 2 ? "version 1 of the format" : "version 2 of the format", UPDATE,
                            "version %llu", (unsigned long long)version);
    if (load(head + 44, 4) != entries_of(pack->kind))
        return not_a_pack(err, "as many entries as the kind has", AGAIN, "another number");
    if (load(head + 24, 8) > (uint64_t)INT64_MAX)
        return not_a_pack(err, "a size of the source", AGAIN, "an impossible one");
    pack->origin =
        (tg_origin){(int64_t)load(head + 24, 8), (int64_t)load(head + 32, 8), (uint32_t)load(head + 40, 4)};
    int64_t end = TG_PACK_HEADER;
    const int first = kind == TG_PACK_ANY ? TG_ANY_NODES : 0, last = first + (int)entries_of(pack->kind);
    for (int i = 0; i < TG_PARTS; i++) pack->part[i] = (tg_pack_array){.shape = {1, 1, 1}};
    for (int i = first; i < last; i++) {
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
        a->bytes = tg_extent(a->shape, parts[i].ndim, a->itemsize);
        end = a->offset + a->bytes;
        uint8_t *p = head + ENTRY_AT + tg_part_entry((tg_part)i) * ENTRY;
        store(p, 4, (uint64_t)a->itemsize), store(p + 4, 4, a->crc);
        store(p + 8, 8, (uint64_t)a->offset), store(p + 16, 8, (uint64_t)a->bytes);
        for (int d = 0; d < parts[i].ndim; d++) store(p + 24 + 8 * d, 8, (uint64_t)a->shape[d]);
        if (parts[i].type == '?') store(p + 48, 8, (uint64_t)a->type);
    }
    pack->size = end;
    store(head + 8, 4, version_of(pack->kind)), store(head + 12, 4, (uint64_t)pack->kind);
    store(head + 16, 8, (uint64_t)end);
    store(head + 24, 8, (uint64_t)pack->origin.size), store(head + 32, 8, (uint64_t)pack->origin.changed);
    store(head + 40, 4, pack->origin.directory), store(head + 44, 4, entries_of(pack->kind));
    store(head + CRC_AT, 4, tg_crc32(0, head, CRC_AT));
}

tg_status tg_pack_check_part(const tg_pack *pack, const uint8_t *bytes, tg_part part, tg_error *err) {
    const tg_pack_array *a = &pack->part[part];
    const uint32_t crc = tg_crc32(0, bytes + a->offset, (size_t)a->bytes);
    if (a->itemsize == 0) return TG_OK;
    if (crc != a->crc)
        return tg_bad_field(err, parts[part].name, "the checksum in the header", AGAIN,
                            "%08x instead of %08x", (unsigned)crc, (unsigned)a->crc);
    for (int64_t i = 0; part == TG_ANY_VALID && i < a->bytes; i++)
        if (bytes[a->offset + i] > 1) return bad(err, part, "0 or 1", bytes[a->offset + i]);
    return TG_OK;
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

tg_status tg_pack_check_configs(const tg_pack *pack, const uint8_t *bytes, tg_cancel *cancel, tg_error *err) {
    static const tg_part configs[] = {TG_TABLE, TG_CODES, TG_ANY_DIGITS};
    tg_status status = TG_OK;
    for (int i = 0; i < 3 && status == TG_OK; i++) status = tg_pack_check_part(pack, bytes, configs[i], err);
    return status == TG_OK && pack->kind == TG_PACK_LAYOUT ? check_codes(pack, bytes, cancel, err) : status;
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

/* Open `path` and read its header; the source is open also after an error in it. */
static tg_status read_header(tg_pack *pack, tg_source *source, uint8_t *head, const char *path,
                             tg_error *err) {
    tg_status status = tg_source_open(path, "a pack file", source, NULL, err);
    if (status != TG_OK) return status;
    const size_t n = source->size < TG_PACK_HEADER ? (size_t)source->size : TG_PACK_HEADER;
    status = tg_source_read(source, 0, head, n, err);
    return status == TG_OK ? tg_pack_parse(pack, head, n, source->size, err) : status;
}

tg_status tg_pack_checksum(const char *path, uint32_t *checksum, tg_error *err) {
    uint8_t head[TG_PACK_HEADER];
    tg_source source;
    tg_pack pack;
    const tg_status status = read_header(&pack, &source, head, path, err);
    tg_source_close(&source);
    if (status == TG_OK) *checksum = tg_crc32(0, head + ENTRY_AT, CRC_AT - ENTRY_AT);
    return status;
}

tg_status tg_pack_open(tg_pack *pack, tg_source *source, const char *path, tg_error *err) {
    uint8_t head[TG_PACK_HEADER];
    tg_status status = read_header(pack, source, head, path, err);
    if (status == TG_OK) status = tg_source_map(source, err);
    if (status == TG_OK) status = tg_pack_check_part(pack, source->bytes, TG_ANY_SCHEMA, err);
    if (status != TG_OK) tg_source_close(source);
    return status;
}
