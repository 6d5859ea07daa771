#include "io/huffman.h"

#define MAX_LENGTH 15

static const uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};

/* The entry of `symbol` but for the length of its code. */
static uint32_t entry_of(enum tg_huff_kind kind, int symbol) {
    if (kind == TG_HUFF_PRE) return (uint32_t)symbol << 16;
    if (kind == TG_HUFF_DIST) {
        if (symbol >= 30) return TG_HUFF_SPECIAL;
        uint32_t extra = symbol < 4 ? 0 : (uint32_t)symbol / 2 - 1;
        uint32_t base = symbol < 4 ? (uint32_t)symbol + 1 : ((2u + ((uint32_t)symbol & 1)) << extra) + 1;
        return base << 16 | extra;
    }
    if (symbol < 256) return (uint32_t)symbol << 16 | TG_HUFF_LITERAL;
    if (symbol == 256) return TG_HUFF_SPECIAL | TG_HUFF_END;
    if (symbol >= 286) return TG_HUFF_SPECIAL;
    return (uint32_t)length_base[symbol - 257] << 16 | length_extra[symbol - 257];
}

static uint32_t with_length(uint32_t entry, uint32_t length) { return entry + length + (length << 8); }

static uint32_t reversed(uint32_t code, int length) {
    uint32_t r = 0;
    for (int i = 0; i < length; i++) r |= (code >> i & 1) << (length - 1 - i);
    return r;
}

/* Kraft sum of count(16) at 2^-15: 1 if the code is complete or one of the permitted exceptions. */
static int lengths_ok(enum tg_huff_kind kind, const int *count, int used) {
    int left = 1;
    for (int length = 1; length <= MAX_LENGTH; length++) {
        left = 2 * left - count[length];
        if (left < 0) return 0;
    }
    if (left == 0) return 1;
    return kind != TG_HUFF_PRE && ((used == 1 && count[1] == 1) || (used == 0 && kind == TG_HUFF_DIST));
}

/* Links and sizes of all subtables: widest(2^bits) holds for each low part of a long code the most bits
   beyond `bits`. Returns the entries used or 0. */
static int place_subtables(uint32_t *table, int cap, int bits, const uint8_t *widest) {
    int used = 1 << bits;
    for (int low = 0; low < 1 << bits; low++) {
        if (widest[low] == 0) continue;
        if (used + (1 << widest[low]) > cap) return 0;
        table[low] = (uint32_t)used << 16 | TG_HUFF_SPECIAL | TG_HUFF_LINK | (uint32_t)widest[low] << 8 |
                     (uint32_t)bits;
        for (int i = 0; i < 1 << widest[low]; i++) table[used + i] = TG_HUFF_SPECIAL;
        used += 1 << widest[low];
    }
    return used;
}

int tg_huff_build(uint32_t *table, int cap, enum tg_huff_kind kind, const uint8_t *lengths, int n) {
    int bits = kind == TG_HUFF_LITLEN ? TG_LITLEN_BITS : kind == TG_HUFF_DIST ? TG_DIST_BITS : TG_PRE_BITS;
    int count[MAX_LENGTH + 1] = {0}, used = 0;
    for (int i = 0; i < n; i++) count[lengths[i]]++, used += lengths[i] != 0;
    if (!lengths_ok(kind, count, used)) return 0;

    uint32_t next[MAX_LENGTH + 2] = {0}, code[320];
    count[0] = 0;
    for (int length = 1; length <= MAX_LENGTH; length++)
        next[length + 1] = (next[length] + (uint32_t)count[length]) << 1;
    uint8_t widest[1 << TG_LITLEN_BITS] = {0};
    for (int i = 0; i < n; i++) {
        if (lengths[i] == 0) continue;
        code[i] = reversed(next[lengths[i]]++, lengths[i]);
        uint32_t low = code[i] & ((1u << bits) - 1);
        if (lengths[i] > bits && lengths[i] - bits > widest[low]) widest[low] = (uint8_t)(lengths[i] - bits);
    }
    for (int i = 0; i < 1 << bits; i++) table[i] = TG_HUFF_SPECIAL;
    if (place_subtables(table, cap, bits, widest) == 0) return 0;
    for (int i = 0; i < n; i++) {
        if (lengths[i] == 0) continue;
        uint32_t entry = entry_of(kind, i);
        uint32_t low = code[i] & ((1u << bits) - 1), first = code[i], size = 1u << bits, length = lengths[i];
        uint32_t *to = table;
        if (lengths[i] > bits) {
            to = table + (table[low] >> 16), size = 1u << widest[low];
            first = code[i] >> bits, length -= (uint32_t)bits;
        }
        for (uint32_t k = first; k < size; k += 1u << length) to[k] = with_length(entry, length);
    }
    return 1;
}
