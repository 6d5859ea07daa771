#include "hlo/hlo.h"

#include <stdio.h>
#include <string.h>

const char *tg_hlo_kind_name(tg_hlo_kind kind) {
    static const char *const names[] = {[TG_HLO_MODULE] = "HloModuleProto",
                                        [TG_HLO_PROTO] = "HloProto",
                                        [TG_HLO_MODULE_TUNING] = "ModuleTuningData",
                                        [TG_HLO_TUNING] = "TuningData"};
    return names[kind];
}

/* ---- what a message looks like; faults end a look, and are reported by whoever reads it ---- */

/* Whether field 2 is the name of an opcode. */
static int is_instruction(tg_wire w) {
    tg_wire_field f;
    while (tg_wire_next(&w, &f) > 0) {
        if (f.number != 2) continue;
        if (f.type != TG_BYTES || f.bytes.at == f.bytes.end) return 0;
        for (const uint8_t *c = f.bytes.at; c < f.bytes.end; c++)
            if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_')) return 0;
        return 1;
    }
    return 0;
}

/* Whether a message in the field `number` passes. */
static int has(tg_wire w, uint32_t number, int (*passes)(tg_wire w)) {
    tg_wire_field f;
    while (tg_wire_next(&w, &f) > 0)
        if (f.number == number && f.type == TG_BYTES && passes(f.bytes)) return 1;
    return 0;
}

static int is_computation(tg_wire w) { return has(w, 2, is_instruction); }
static int is_module(tg_wire w) { return has(w, 3, is_computation); }
static int is_tuning(tg_wire w) { return has(w, 1, is_module); }

static int has_only_numbers(tg_wire w) {
    tg_wire_field f;
    while (tg_wire_next(&w, &f) > 0)
        if (f.type != TG_VARINT) return 0;
    return 1;
}

/* Whether it is a ConfigProfile with a time, an error or the mark of the default. The BufferAssignmentProto of an
   HloProto, which is in field 3 too, has lists of messages in fields 1 to 4. */
static int is_run(tg_wire w) {
    tg_wire_field f;
    int known = 0;
    while (tg_wire_next(&w, &f) > 0) {
        if (f.number > 5) continue;
        const int number = f.number == 3 || f.number == 5;
        if (number != (f.type == TG_VARINT)) return 0;
        if (f.number == 4 && !has_only_numbers(f.bytes)) return 0;
        known |= f.number > 2;
    }
    return known;
}

/* A message with a module in field 1: whether it is a ModuleTuningData. One without runs, nodes and fingerprint is an
   HloProto too, byte for byte, and means the same. */
static int has_measurements(tg_wire w) {
    tg_wire_field f;
    while (tg_wire_next(&w, &f) > 0) {
        if (f.number == 2 && f.type == TG_VARINT) return 1;
        if (f.number == 4) return 1;
        if (f.number == 3 && f.type == TG_BYTES && is_run(f.bytes)) return 1;
    }
    return 0;
}

/* ---- what else it may be ---- */

static int starts_with(tg_wire w, const char *text) {
    const size_t n = strlen(text);
    return (size_t)(w.end - w.at) >= n && memcmp(w.at, text, n) == 0;
}

static const char *other_format(tg_wire file) {
    if (starts_with(file, "HloModule ")) return "HLO as text";
    if (starts_with(file, "ML\xefR")) return "MLIR bytecode";
    if (starts_with(file, "module ") || starts_with(file, "#loc")) return "MLIR as text";
    if (starts_with(file, "\x1f\x8b")) return "a file packed with gzip";
    if (starts_with(file, "PK\x03\x04")) return "a zip file";
    return NULL;
}

/* The first fields of an unknown message. */
static void list_fields(tg_wire w, char *text, size_t size) {
    tg_wire_field f;
    size_t used = 0;
    for (int i = 0; i < 4 && tg_wire_next(&w, &f) > 0 && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%sfield %u: %s", i > 0 ? ", " : "",
                                 (unsigned)f.number, tg_wire_type_name(f.type));
        if (f.type == TG_BYTES && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, " (%lld)", (long long)(f.bytes.end - f.bytes.at));
    }
}

tg_status tg_hlo_recognise(tg_wire file, tg_hlo_kind *kind, tg_error *err) {
    static const char expected[] = "an HloModuleProto, HloProto, ModuleTuningData or TuningData";
    static const char remedy[] = "write the program with as_serialized_hlo_module_proto(), or dump it with "
                                 "--xla_dump_hlo_as_proto";
    const tg_hlo_reader r = tg_hlo_reader_of(file, err);
    if (file.at == file.end) return tg_bad_field(err, "file", expected, remedy, "an empty file");
    if (is_tuning(file)) *kind = has_measurements(file) ? TG_HLO_MODULE_TUNING : TG_HLO_PROTO;
    else if (has(file, 1, is_tuning)) *kind = TG_HLO_TUNING;
    else if (is_module(file)) *kind = TG_HLO_MODULE;
    else {
        const char *other = other_format(file);
        if (other != NULL) return tg_bad_field(err, "file", expected, remedy, "%s", other);
        tg_wire w = file;
        tg_wire_field f;
        int more;
        while ((more = tg_wire_next(&w, &f)) > 0) {
        }
        if (more < 0) return tg_hlo_fault(&r, &w, more);
        char found[160];
        list_fields(file, found, sizeof found);
        return tg_bad_field(err, "file", expected, remedy, "no instruction in it; %s", found);
    }
    return TG_OK;
}
