#include "features/opcodes.h"

#include <string.h>

const char tg_opcode_names[] =
    "abs add add-dependency after-all all-reduce all-to-all atan2 batch-norm-grad batch-norm-inference "
    "batch-norm-training bitcast bitcast-convert broadcast call ceil cholesky clamp collective-permute "
    "count-leading-zeros compare complex concatenate conditional constant convert convolution copy "
    "copy-done copy-start cosine custom-call divide domain dot dynamic-slice dynamic-update-slice "
    "exponential exponential-minus-one fft floor fusion gather get-dimension-size set-dimension-size "
    "get-tuple-element imag infeed iota is-finite log log-plus-one and not or xor map maximum minimum "
    "multiply negate outfeed pad parameter partition-id popcnt power real recv recv-done reduce "
    "reduce-precision reduce-window remainder replica-id reshape reverse rng rng-get-and-update-state "
    "rng-bit-generator round-nearest-afz rsqrt scatter select select-and-scatter send send-done "
    "shift-left shift-right-arithmetic shift-right-logical sign sine slice sort sqrt subtract tanh trace "
    "transpose triangular-solve tuple tuple-select while cbrt all-gather collective-permute-start "
    "collective-permute-done logistic dynamic-reshape all-reduce-start all-reduce-done reduce-scatter "
    "all-gather-start all-gather-done opt-barrier async-start async-update async-done round-nearest-even "
    "stochastic-convert tan";

enum { LONGEST = 32 }; /* name that is looked up */

/* From the first and the last four letters, which may overlap, or from all of a shorter name. */
static unsigned slot_of(const uint8_t *name, size_t size) {
    uint32_t first = 0, last = 0;
    if (size >= sizeof first) {
        memcpy(&first, name, sizeof first);
        memcpy(&last, name + size - sizeof last, sizeof last);
    } else if (size > 0) {
        memcpy(&first, name, size);
    }
    return (first * 0x9e3779b1u ^ (last + (uint32_t)size) * 0x85ebca77u) >> (32 - 8);
}

void tg_opcode_table_fill(tg_opcode_table *table) {
    memset(table, 0, sizeof *table);
    const char *name = tg_opcode_names;
    for (int i = 1; i <= TG_OPCODES; i++) {
        const size_t size = strcspn(name, " ");
        unsigned slot = slot_of((const uint8_t *)name, size);
        while (table->slot[slot] != 0) slot = (slot + 1) & 0xff;
        table->slot[slot] = (uint8_t)i;
        table->name[i] = name;
        table->size[i] = size;
        name += size + 1;
    }
}

uint8_t tg_opcode_of(const tg_opcode_table *table, const uint8_t *name, size_t size) {
    if (size > LONGEST) return 0;
    for (unsigned slot = slot_of(name, size); table->slot[slot] != 0; slot = (slot + 1) & 0xff) {
        const uint8_t number = table->slot[slot];
        if (table->size[number] == size && memcmp(table->name[number], name, size) == 0) return number;
    }
    return 0;
}
