/* The wire format of protocol buffers, read where it lies: fields one after the other, without recursion, copies or
   allocation. What a message means is not known here. */
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
    const char *fault; /* what is wrong at `at`, after a -1 */
} tg_wire;

typedef struct tg_wire_field {
    uint32_t number;
    tg_wire_type type;
    uint64_t value; /* of a varint */
    tg_wire bytes;  /* of TG_BYTES: its content; of a varint: the varint, so that both are read as numbers */
    const uint8_t *tag; /* where it begins */
} tg_wire_field;

/* One number: 1, 0 at the end, -1 with a fault. */
int tg_wire_long_number(tg_wire *w, uint64_t *x);

static inline int tg_wire_number(tg_wire *w, uint64_t *x) {
    if (w->at == w->end) return 0;
    if (*w->at < 0x80) {
        *x = *w->at++;
        return 1;
    }
    return tg_wire_long_number(w, x);
}

/* The next field that is not a group: 1, 0 at the end, -1 with a fault. */
int tg_wire_next(tg_wire *w, tg_wire_field *f);

/* The name of a wire type, for errors. */
const char *tg_wire_type_name(tg_wire_type type);

#endif
