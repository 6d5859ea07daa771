#include "hlo/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const tg_fields tg_content_of_1 = {[1] = TG_CONTENT};

static void add(char *text, size_t size, const char *what, long long number) {
    const size_t at = strlen(text);
    if (number >= 0) snprintf(text + at, size - at, "%s%s %lld", at > 0 ? ", " : "", what, number);
}

tg_status tg_hlo_bad(const tg_hlo_reader *r, const uint8_t *at, const char *expected, const char *remedy,
                     const char *found_fmt, ...) {
    char place[96] = "", found[160];
    add(place, sizeof place, "module", r->module);
    add(place, sizeof place, "computation", r->computation);
    add(place, sizeof place, "instruction", r->instruction);
    add(place, sizeof place, "run", r->run);
    add(place, sizeof place, "node", r->node);
    add(place, sizeof place, "tensor", r->tensor);
    const size_t used = strlen(place);
    if (r->part != NULL) snprintf(place + used, sizeof place - used, "%s%s", used > 0 ? ", " : "", r->part);
    va_list args;
    va_start(args, found_fmt);
    vsnprintf(found, sizeof found, found_fmt, args);
    va_end(args);
    return tg_bad_field(r->err, place[0] == 0 ? "file" : place, expected, remedy, "%s at byte %lld", found,
                        (long long)(at - r->start));
}

tg_status tg_hlo_pass(tg_hlo_reader *r, const uint8_t *at) {
    if (r->mapped != NULL && at > r->passed)
        tg_source_release_part(r->mapped, r->passed - r->start, at - r->start);
    r->passed = at;
    return tg_cancelled(r->cancel) ? TG_E_CANCELLED : TG_OK;
}

tg_status tg_hlo_fault(const tg_hlo_reader *r, const tg_wire *w, int fault) {
    return tg_hlo_bad(r, w->at, "protobuf fields up to the end", TG_HLO_DAMAGED, "%s",
                      tg_wire_fault_name((tg_wire_fault)fault));
}

tg_status tg_hlo_wrong_type(const tg_hlo_reader *r, const tg_wire_field *f, unsigned allowed) {
    static const char *const expected[] = {[TG_NUMBER] = "a number",
                                           [TG_CONTENT] = "a text or a message",
                                           [TG_NUMBERS] = "numbers, packed or one by one"};
    return tg_hlo_bad(r, f->tag, expected[allowed], TG_HLO_DAMAGED, "%s in field %u",
                      tg_wire_type_name(f->type), (unsigned)f->number);
}

tg_status tg_hlo_changed(const tg_hlo_reader *r, const uint8_t *at) {
    return tg_hlo_bad(r, at, "the file that was opened", "read it again when it is complete",
                      "something that was written while it was read");
}
