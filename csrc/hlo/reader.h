/* Shared by the files of this room: the known fields of a message, by a table, and errors that name the place. */
#ifndef TG_READER_H
#define TG_READER_H

#include "base/cancel.h"
#include "hlo/wire.h"
#include "io/source.h"

/* Where a reader is, for errors. */
typedef struct tg_hlo_reader {
    const uint8_t *start;                                        /* of the file */
    int64_t module, computation, instruction, run, node, tensor; /* -1: not inside of one */
    const char *part;                                            /* of the innermost of these, or NULL */
    const uint8_t *passed;   /* what lies before was looked at in this pass over the file */
    const tg_source *mapped; /* whose pages are given back when they are passed; NULL: memory */
    tg_cancel *cancel;
    tg_error *err;
} tg_hlo_reader;

/* At the beginning of a file, inside of nothing. */
static inline tg_hlo_reader tg_hlo_reader_of(tg_wire file, tg_error *err) {
    return (tg_hlo_reader){.start = file.at,
                           .module = -1,
                           .computation = -1,
                           .instruction = -1,
                           .run = -1,
                           .node = -1,
                           .tensor = -1,
                           .passed = file.at,
                           .err = err};
}

/* Wire types that a known field may have; 0: the field is skipped. */
enum { TG_NUMBER = 1 << TG_VARINT, TG_CONTENT = 1 << TG_BYTES, TG_NUMBERS = TG_NUMBER | TG_CONTENT };

enum { TG_FIELDS = 72 }; /* more than the number of any known field */
typedef uint8_t tg_fields[TG_FIELDS];
extern const tg_fields tg_content_of_1; /* of messages that are of interest for one other in field 1 */

/* A TG_E_DATA: the place, the byte `at`, what was expected there and found; and what to do about it. */
tg_status tg_hlo_bad(const tg_hlo_reader *r, const uint8_t *at, const char *expected, const char *remedy,
                     const char *found_fmt, ...) TG_PRINTF(5, 6);

/* A TG_E_DATA for the fault at w, and for a known field of a wrong type. */
tg_status tg_hlo_fault(const tg_hlo_reader *r, const tg_wire *w, int fault);
tg_status tg_hlo_wrong_type(const tg_hlo_reader *r, const tg_wire_field *f, unsigned allowed);

/* A TG_E_DATA: what was measured is not what is being read. Memory was made by the former. */
tg_status tg_hlo_changed(const tg_hlo_reader *r, const uint8_t *at);

#define TG_HLO_DAMAGED "the file is damaged or not of this kind: write it again"

/* Every few megabytes: give pages back, and ask whether to stop. `at`: how far the pass has come. */
tg_status tg_hlo_pass(tg_hlo_reader *r, const uint8_t *at);

static inline tg_status tg_hlo_progress(tg_hlo_reader *r, const uint8_t *at) {
    enum { STEP = 4 << 20 };
    return at >= r->passed && at - r->passed < STEP ? TG_OK : tg_hlo_pass(r, at);
}

/* The next known field: 1, 0 at the end, less after a TG_E_DATA. */
static inline int tg_hlo_next(const tg_hlo_reader *r, tg_wire *w, const tg_fields known, tg_wire_field *f) {
    int more;
    while ((more = tg_wire_next(w, f)) > 0) {
        if (f->number >= TG_FIELDS || known[f->number] == 0) continue;
        if (known[f->number] >> f->type & 1) return 1;
        tg_hlo_wrong_type(r, f, known[f->number]);
        return -1;
    }
    if (more < 0) tg_hlo_fault(r, w, more);
    return more;
}

#endif
