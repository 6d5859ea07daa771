#include "io/inflate.h"

#include <stdlib.h>
#include <string.h>

#include "io/huffman.h"

#define HISTORY  32768
#define CHUNK    (224 << 10) /* with the history 256 KiB: stays in the second-level cache */
#define OUT_ROOM 320         /* the longest match and what a wide copy may write beyond it */
#define IN_SIZE  (64 << 10)
#define IN_PAD   64
#define IN_ROOM  1024 /* a block header is at most 573 bytes */

struct tg_inflate {
    uint32_t litlen[TG_LITLEN_SIZE], dist[TG_DIST_SIZE];
    uint8_t input[IN_SIZE + IN_PAD];
    uint8_t window[HISTORY + CHUNK + OUT_ROOM];

    /* bit buffer: `count` valid bits; the bits above them repeat what `in` points at */
    uint64_t bits;
    unsigned count;
    const uint8_t *in, *in_end, *in_limit; /* up to in_limit a refill is allowed */
    uint8_t *out, *flushed;

    const tg_source *source;
    int64_t offset, left; /* of the packed bytes not yet read */
    int64_t size, done;   /* bytes promised, bytes given to the sink */
    const char *field;
    tg_sink sink;
    void *context;
    tg_cancel *cancel;
    tg_error *err;
    int stop;
};

tg_inflate *tg_inflate_new(void) { return malloc(sizeof(tg_inflate)); }

void tg_inflate_free(tg_inflate *s) { free(s); }

static tg_status corrupt(tg_inflate *s, const char *what) {
    tg_fail_field(s->err, s->field, "valid deflate data", "%s", what);
    if (s->err != NULL) strncat(s->err->message, "; the file is damaged: download or copy it again", 64);
    return TG_E_DATA;
}

/* Have at least IN_ROOM bytes of input, or all there is followed by zeros. */
static tg_status fill_input(tg_inflate *s) {
    size_t have = s->in < s->in_end ? (size_t)(s->in_end - s->in) : 0;
    if (have >= IN_ROOM || s->left == 0) return TG_OK;
    /* Whole bytes in the bit buffer go back to the input, so that used_to() never points before it. */
    s->in -= s->count >> 3, s->count &= 7, s->bits &= ((uint64_t)1 << s->count) - 1;
    have = (size_t)(s->in_end - s->in);
    memmove(s->input, s->in, have);
    size_t more = IN_SIZE - have;
    if ((int64_t)more > s->left) more = (size_t)s->left;
    tg_status status = tg_source_read(s->source, s->offset, s->input + have, more, s->err);
    if (status != TG_OK) return status;
    s->offset += (int64_t)more, s->left -= (int64_t)more;
    s->in = s->input, s->in_end = s->input + have + more;
    /* At the end zeros are read instead of nothing; whether they were needed is seen by where `in` stands. */
    memset(s->input + have + more, 0, IN_PAD);
    s->in_limit = s->left > 0 ? s->in_end - 8 : s->in_end + 24;
    return TG_OK;
}

/* First byte of input whose bits have not all been used. */
static const uint8_t *used_to(const tg_inflate *s) { return s->in - (s->count >> 3); }

/* Give the sink what is new and keep the last 32 KiB. */
static tg_status flush(tg_inflate *s) {
    size_t n = (size_t)(s->out - s->flushed);
    if ((int64_t)n > s->size - s->done) return corrupt(s, "more bytes than the member's declared size");
    if (tg_cancelled(s->cancel)) return tg_fail(s->err, TG_E_CANCELLED, "cancelled");
    s->done += (int64_t)n;
    if (n > 0) {
        tg_status status = s->sink(s->context, s->flushed, n, &s->stop, s->err);
        if (status != TG_OK) return status;
    }
    if (s->out - s->window > HISTORY) {
        memmove(s->window, s->out - HISTORY, HISTORY);
        s->out = s->window + HISTORY;
    }
    s->flushed = s->out;
    return TG_OK;
}

static inline uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

/* At least 56 valid bits, without a branch: `in` moves by the whole bytes that fitted. in < in_limit. */
#define REFILL()                                                                                             \
    do {                                                                                                     \
        bits |= load64(in) << count;                                                                         \
        in += (63 - count) >> 3;                                                                             \
        count |= 56;                                                                                         \
    } while (0)

/* to[i] = to[i - distance] for i < length; may write up to 32 bytes further. */
static inline void copy_match(uint8_t *to, unsigned distance, unsigned length) {
    const uint8_t *from = to - distance, *end = to + length;
    if (distance >= 32) {
        do {
            memcpy(to, from, 32); /* one load, one or two stores */
            to += 32, from += 32;
        } while (to < end);
        return;
    }
    uint64_t pattern[2];
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (distance == 4 || distance == 8 || distance == 1 || distance == 2) {
        memcpy(pattern, from, 8);
        if (distance == 1) pattern[0] = (pattern[0] & 255) * 0x0101010101010101u;
        else if (distance == 2) pattern[0] = (pattern[0] & 0xffff) * 0x0001000100010001u;
        else if (distance == 4) pattern[0] = (pattern[0] & 0xffffffffu) * 0x0000000100000001u;
        pattern[1] = pattern[0];
        do {
            memcpy(to, pattern, 16);
            to += 16;
        } while (to < end);
        return;
    }
#endif
    /* Copy the period until it is 16 bytes long: from there on source and target of a copy do not overlap. */
    while (distance < 16 && to < end) {
        memcpy(pattern, from, 16);
        memcpy(to, pattern, 16);
        to += distance, distance *= 2;
    }
    while (to < end) {
        memcpy(to, from, 16);
        to += 16, from += 16;
    }
}

enum { BLOCK_END, NEED_ROOM, BAD_CODE, BAD_DISTANCE };

/* Decode with the tables until the block ends, input or output room is used up, or the data is wrong. Bits
   needed per round: 15 + 5 for a length and 15 + 13 for a distance, less than one refill gives. */
static int decode_block(tg_inflate *s) {
    const uint32_t *litlen = s->litlen, *dist = s->dist;
    const uint64_t litlen_mask = (1u << TG_LITLEN_BITS) - 1, dist_mask = (1u << TG_DIST_BITS) - 1;
    const uint8_t *in = s->in, *in_limit = s->in_limit;
    uint8_t *out = s->out, *const out_limit = s->window + HISTORY + CHUNK;
    uint64_t bits = s->bits, saved;
    unsigned count = s->count;
    int result = NEED_ROOM;
#define DROP(e)  (bits >>= (e) & 63, count -= (e) & 63)
#define EXTRA(e) ((unsigned)((saved & (((uint64_t)1 << ((e) & 63)) - 1)) >> ((e) >> 8 & 15)))
    while (in < in_limit && out < out_limit) {
        REFILL();
        uint32_t e = litlen[bits & litlen_mask];
        if (e & TG_HUFF_LITERAL) {
            DROP(e);
            *out++ = (uint8_t)(e >> 16);
            e = litlen[bits & litlen_mask]; /* 45 bits are left: enough for a literal, else start over */
            if (!(e & TG_HUFF_LITERAL)) continue;
            DROP(e);
            *out++ = (uint8_t)(e >> 16);
            continue;
        }
        if (e & TG_HUFF_LINK) {
            DROP(e);
            e = litlen[(e >> 16) + (bits & ((1u << (e >> 8 & 15)) - 1))];
            if (e & TG_HUFF_LITERAL) {
                DROP(e);
                *out++ = (uint8_t)(e >> 16);
                continue;
            }
        }
        saved = bits;
        DROP(e);
        if (e & TG_HUFF_SPECIAL) {
            result = e & TG_HUFF_END ? BLOCK_END : BAD_CODE;
            break;
        }
        unsigned length = (e >> 16) + EXTRA(e);
        e = dist[bits & dist_mask];
        if (e & TG_HUFF_LINK) {
            DROP(e);
            e = dist[(e >> 16) + (bits & ((1u << (e >> 8 & 15)) - 1))];
        }
        saved = bits;
        DROP(e);
        unsigned distance = (e >> 16) + EXTRA(e);
        if ((e & TG_HUFF_SPECIAL) || distance > (size_t)(out - s->window)) {
            result = BAD_DISTANCE;
            break;
        }
        copy_match(out, distance, length);
        out += length;
    }
    s->in = in, s->out = out, s->bits = bits, s->count = count;
    return result;
}

static unsigned take(tg_inflate *s, unsigned n) {
    unsigned value = (unsigned)(s->bits & ((1u << n) - 1));
    s->bits >>= n, s->count -= n;
    return value;
}

/* 56 bits for take(); past the end of the input they are zeros. */
static tg_status need_bits(tg_inflate *s) {
    if (s->in >= s->in_limit) {
        if (s->left > 0) {
            tg_status status = fill_input(s);
            if (status != TG_OK) return status;
        }
        if (s->in >= s->in_limit) return corrupt(s, "the end of the member in the middle of a block");
    }
    uint64_t bits = s->bits;
    const uint8_t *in = s->in;
    unsigned count = s->count;
    REFILL();
    s->bits = bits, s->in = in, s->count = count;
    return TG_OK;
}

static tg_status run_block(tg_inflate *s) {
    for (;;) {
        tg_status status = fill_input(s);
        if (status != TG_OK) return status;
        switch (decode_block(s)) {
        case BLOCK_END: return TG_OK;
        case BAD_CODE: return corrupt(s, "a code that does not exist");
        case BAD_DISTANCE: return corrupt(s, "a match that points before the beginning");
        default: break;
        }
        if (s->in >= s->in_limit && s->left == 0)
            return corrupt(s, "the end of the member in the middle of a block");
        if (s->out >= s->window + HISTORY + CHUNK && (status = flush(s)) != TG_OK) return status;
        if (s->stop) return TG_OK;
    }
}

/* A stored block: 16-bit length, its complement, the bytes. */
static tg_status stored_block(tg_inflate *s) {
    s->in = used_to(s), s->bits = 0, s->count = 0;
    tg_status status = fill_input(s);
    if (status != TG_OK) return status;
    if (s->in_end - s->in < 4) return corrupt(s, "the end of the member in a block header");
    unsigned n = s->in[0] | (unsigned)s->in[1] << 8, check = s->in[2] | (unsigned)s->in[3] << 8;
    if ((n ^ check) != 0xffff) return corrupt(s, "a stored block with a wrong length");
    s->in += 4;
    while (n > 0 && !s->stop) {
        if ((status = fill_input(s)) != TG_OK) return status;
        if (s->in >= s->in_end) return corrupt(s, "the end of the member in a stored block");
        size_t room = (size_t)(s->window + HISTORY + CHUNK - s->out), some = (size_t)(s->in_end - s->in);
        if (s->out >= s->window + HISTORY + CHUNK) room = 0;
        if (some > room) some = room;
        if (some > n) some = n;
        memcpy(s->out, s->in, some);
        s->in += some, s->out += some, n -= (unsigned)some;
        if (room == some && (status = flush(s)) != TG_OK) return status;
    }
    return TG_OK;
}

static tg_status fixed_tables(tg_inflate *s) {
    uint8_t lengths[288];
    for (int i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    tg_huff_build(s->litlen, TG_LITLEN_SIZE, TG_HUFF_LITLEN, lengths, 288);
    memset(lengths, 5, 32);
    tg_huff_build(s->dist, TG_DIST_SIZE, TG_HUFF_DIST, lengths, 32);
    return TG_OK;
}

/* Code lengths of a dynamic block: lengths(n), run-length coded with the code in pre(128). */
static tg_status read_lengths(tg_inflate *s, const uint32_t *pre, uint8_t *lengths, int n) {
    for (int i = 0; i < n;) {
        tg_status status = need_bits(s);
        if (status != TG_OK) return status;
        uint32_t e = pre[s->bits & (TG_PRE_SIZE - 1)];
        if (e & TG_HUFF_SPECIAL) return corrupt(s, "a code that does not exist in a block header");
        take(s, e & 63);
        unsigned symbol = e >> 16, repeat = 1;
        uint8_t value = (uint8_t)symbol;
        if (symbol == 16) {
            if (i == 0) return corrupt(s, "a repeat without a first code length");
            value = lengths[i - 1], repeat = 3 + take(s, 2);
        } else if (symbol > 16) {
            value = 0, repeat = symbol == 17 ? 3 + take(s, 3) : 11 + take(s, 7);
        }
        if (repeat > (unsigned)(n - i)) return corrupt(s, "too many code lengths");
        memset(lengths + i, value, repeat);
        i += (int)repeat;
    }
    return TG_OK;
}

static tg_status dynamic_tables(tg_inflate *s) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[320], pre_lengths[19] = {0};
    uint32_t pre[TG_PRE_SIZE];
    tg_status status = need_bits(s);
    if (status != TG_OK) return status;
    int litlens = 257 + (int)take(s, 5), dists = 1 + (int)take(s, 5), pre_count = 4 + (int)take(s, 4);
    if (litlens > 286 || dists > 30) return corrupt(s, "too many codes in a block header");
    for (int i = 0; i < pre_count; i++) {
        if ((status = need_bits(s)) != TG_OK) return status;
        pre_lengths[order[i]] = (uint8_t)take(s, 3);
    }
    if (!tg_huff_build(pre, TG_PRE_SIZE, TG_HUFF_PRE, pre_lengths, 19))
        return corrupt(s, "code lengths that do not make a code");
    if ((status = read_lengths(s, pre, lengths, litlens + dists)) != TG_OK) return status;
    if (lengths[256] == 0) return corrupt(s, "a block without an end");
    if (!tg_huff_build(s->litlen, TG_LITLEN_SIZE, TG_HUFF_LITLEN, lengths, litlens) ||
        !tg_huff_build(s->dist, TG_DIST_SIZE, TG_HUFF_DIST, lengths + litlens, dists))
        return corrupt(s, "code lengths that do not make a code");
    return TG_OK;
}

static void begin(tg_inflate *s, const tg_source *source, const char *field, int64_t offset, int64_t packed,
                  int64_t size, tg_sink sink, void *context, tg_cancel *cancel, tg_error *err) {
    s->bits = 0, s->count = 0, s->stop = 0, s->done = 0;
    s->in = s->in_end = s->input;
    s->in_limit = s->input;
    s->out = s->flushed = s->window;
    s->source = source, s->field = field, s->offset = offset, s->left = packed, s->size = size;
    s->sink = sink, s->context = context, s->cancel = cancel, s->err = err;
    memset(s->input, 0, IN_PAD);
}

tg_status tg_inflate_run(tg_inflate *s, const tg_source *source, const char *field, int64_t offset,
                         int64_t packed, int64_t size, tg_sink sink, void *context, tg_cancel *cancel,
                         tg_error *err) {
    begin(s, source, field, offset, packed, size, sink, context, cancel, err);
    for (int last = 0; !last && !s->stop;) {
        tg_status status = need_bits(s);
        if (status != TG_OK) return status;
        last = (int)take(s, 1);
        unsigned kind = take(s, 2);
        if (kind == 3) return corrupt(s, "a block of unknown kind");
        if (kind == 0) status = stored_block(s);
        else if ((status = kind == 1 ? fixed_tables(s) : dynamic_tables(s)) == TG_OK) status = run_block(s);
        if (status != TG_OK) return status;
        if (used_to(s) > s->in_end) return corrupt(s, "the end of the member in the middle of a block");
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        /* Empty blocks cost input only; a block's output is bounded by flush(). */
    }
    if (s->stop) return TG_OK;
    tg_status status = flush(s);
    if (status != TG_OK || s->stop) return status;
    if (s->done != size) return corrupt(s, "fewer bytes than the member's declared size");
    if (used_to(s) != s->in_end || s->left != 0) return corrupt(s, "unused bytes after the last block");
    return TG_OK;
}

tg_status tg_inflate_copy(tg_inflate *s, const tg_source *source, int64_t offset, int64_t size, tg_sink sink,
                          void *context, tg_cancel *cancel, tg_error *err) {
    int stop = 0;
    for (int64_t done = 0; done < size && !stop;) {
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        size_t n = size - done < CHUNK ? (size_t)(size - done) : CHUNK;
        tg_status status = tg_source_read(source, offset + done, s->window, n, err);
        if (status == TG_OK) status = sink(context, s->window, n, &stop, err);
        if (status != TG_OK) return status;
        done += (int64_t)n;
    }
    return TG_OK;
}
