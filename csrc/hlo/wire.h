/* The wire format of protocol buffers, read in place: fields one after the other, without recursion, copies or
   allocation. The meaning of messages is not known here. */
#ifndef TG_WIRE_H
#define TG_WIRE_H

#include <stdint.h>

typedef enum tg_wire_type {
    TG_VARINT = 0,
    TG_FIXED64 = 1,
    TG_BYTES = 2, /* a text, a message or packed numbers */
    TG_GROUP = 3, /* obsolete; skipped with all that is in it */
    TG_GROUP_END = 4,
    TG_FIXED32 = 5
} tg_wire_type;

/* What is left of a message, or of packed numbers. */
typedef struct tg_wire {
    const uint8_t *at, *end;
} tg_wire;

/* What may be wrong with it, at `at`. */
typedef enum tg_wire_fault {
    TG_CUT_NUMBER = -9,
    TG_LONG_NUMBER,
    TG_BAD_NUMBER,
    TG_BAD_TYPE,
    TG_NO_VALUE,
    TG_TOO_LONG,
    TG_DEEP_GROUPS,
    TG_OTHER_GROUP,
    TG_OPEN_GROUP
} tg_wire_fault;

/* In words. */
const char *tg_wire_fault_name(tg_wire_fault fault);

typedef struct tg_wire_field {
    uint32_t number;
    tg_wire_type type;
    uint64_t value; /* of a varint */
    tg_wire bytes;  /* of TG_BYTES: its content; of a varint: the varint, so that both are read as numbers */
    const uint8_t *tag; /* where it begins */
} tg_wire_field;

/* One number: 1, 0 at the end, or a fault. */
int tg_wire_long_number(tg_wire *w, uint64_t *x);

static inline int tg_wire_number(tg_wire *w, uint64_t *x) {
    if (w->at == w->end) return 0;
    if (*w->at < 0x80) {
        *x = *w->at++;
        return 1;
    }
    return tg_wire_long_number(w, x);
}

/* The next field, when it is not the most frequent case. */
int tg_wire_other(tg_wire *w, tg_wire_field *f);

/* The next field that is not a group: 1, 0 at the end, or a fault. Numbers and lengths below 2^14 in fields below 2^11
   are nearly all there is: they are read here, the rest in wire.c. */
static inline int tg_wire_next(tg_wire *w, tg_wire_field *f) {
    const uint8_t *at = w->at;
    if (w->end - at < 4) return at == w->end ? 0 : tg_wire_other(w, f);
    uint32_t tag = *at++;
    if (tag >= 0x80) tag = (tag & 0x7f) | (uint32_t)*at++ << 7;
    const uint8_t *begin = at;
    uint32_t value = *at++;
    if (value >= 0x80) value = (value & 0x7f) | (uint32_t)*at++ << 7;
    const uint32_t type = tag & 7;
    if (tag < 8 || tag >= 1 << 14 || value >= 1 << 14) return tg_wire_other(w, f);
    f->number = tag >> 3;
    f->tag = w->at;
    f->type = (tg_wire_type)type;
    if (type == TG_VARINT) {
        f->value = value;
        f->bytes = (tg_wire){begin, at};
        w->at = at;
        return 1;
    }
    if (type != TG_BYTES || value > (uint64_t)(w->end - at)) return tg_wire_other(w, f);
    f->bytes = (tg_wire){at, at + value};
    w->at = at + value;
    return 1;
}

/* The name of a wire type, for errors. */
const char *tg_wire_type_name(tg_wire_type type);

#endif
