#include "hlo/wire.h"

enum {
    DEEPEST = 100,
    LAST_NUMBER = (1 << 29) - 1
}; /* groups in each other, field number: as protobuf has them */

const char *tg_wire_fault_name(tg_wire_fault fault) {
    static const char *const names[] = {"a number that is cut off",
                                        "a number of more than ten bytes",
                                        "an impossible field number",
                                        "an impossible wire type",
                                        "a field without its value",
                                        "a field longer than what it is in",
                                        "groups that are nested too deeply",
                                        "the end of another group",
                                        "a group without its end or beginning"};
    return names[fault - TG_CUT_NUMBER];
}

static int fail(tg_wire *w, const uint8_t *at, tg_wire_fault fault) {
    w->at = at;
    return fault;
}

int tg_wire_long_number(tg_wire *w, uint64_t *x) {
    const uint8_t *at = w->at;
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == w->end) return fail(w, w->at, TG_CUT_NUMBER);
        const uint64_t byte = *at++;
        value |= (byte & 0x7f) << shift; /* of the tenth byte one bit counts, as in protobuf */
        if (byte < 0x80) {
            *x = value;
            w->at = at;
            return 1;
        }
    }
    return fail(w, w->at, TG_LONG_NUMBER);
}

const char *tg_wire_type_name(tg_wire_type type) {
    static const char *const names[] = {"a number", "eight bytes",      "bytes",
                                        "a group",  "the end of group", "four bytes"};
    return names[type];
}

/* Number and type of the field at w, whose value comes next. */
static inline int read_tag(tg_wire *w, tg_wire_field *f) {
    uint64_t tag;
    f->tag = w->at;
    const int more = tg_wire_number(w, &tag);
    if (more <= 0) return more;
    if (tag >> 3 == 0 || tag >> 3 > LAST_NUMBER) return fail(w, f->tag, TG_BAD_NUMBER);
    if ((tag & 7) > TG_FIXED32) return fail(w, f->tag, TG_BAD_TYPE);
    f->number = (uint32_t)(tag >> 3);
    f->type = (tg_wire_type)(tag & 7);
    return 1;
}

/* The value of a field that is neither beginning nor end of a group. */
static inline int read_value(tg_wire *w, tg_wire_field *f) {
    uint64_t size = 4;
    const uint8_t *begin = w->at;
    if (f->type == TG_VARINT) {
        const int more = tg_wire_number(w, &f->value);
        f->bytes = (tg_wire){begin, w->at};
        return more == 0 ? fail(w, f->tag, TG_NO_VALUE) : more;
    }
    if (f->type == TG_BYTES) {
        const int more = tg_wire_number(w, &size);
        if (more <= 0) return more == 0 ? fail(w, f->tag, TG_NO_VALUE) : more;
    } else if (f->type == TG_FIXED64) {
        size = 8;
    }
    if (size > (uint64_t)(w->end - w->at)) return fail(w, f->tag, TG_TOO_LONG);
    f->bytes = (tg_wire){w->at, w->at + size};
    w->at += size;
    return 1;
}

/* Skip the group that `f` has begun. */
static int skip_group(tg_wire *w, const tg_wire_field *f) {
    uint32_t open[DEEPEST];
    int depth = 0;
    tg_wire_field inner = *f;
    do {
        int more = 1;
        if (inner.type == TG_GROUP) {
            if (depth == DEEPEST) return fail(w, inner.tag, TG_DEEP_GROUPS);
            open[depth++] = inner.number;
        } else if (inner.type == TG_GROUP_END) {
            if (open[--depth] != inner.number) return fail(w, inner.tag, TG_OTHER_GROUP);
        } else {
            more = read_value(w, &inner);
        }
        if (more > 0 && depth > 0) more = read_tag(w, &inner);
        if (more <= 0) return more == 0 ? fail(w, f->tag, TG_OPEN_GROUP) : more;
    } while (depth > 0);
    return 1;
}

int tg_wire_other(tg_wire *w, tg_wire_field *f) {
    for (;;) {
        int more = read_tag(w, f);
        if (more <= 0) return more;
        if (f->type == TG_GROUP_END) return fail(w, f->tag, TG_OPEN_GROUP);
        if (f->type != TG_GROUP) return read_value(w, f);
        more = skip_group(w, f);
        if (more <= 0) return more;
    }
}
