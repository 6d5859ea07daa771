/* The HLO opcodes as TpuGraphs numbers them, from 1 on; 0 stands for every other one. */
#ifndef TG_OPCODES_H
#define TG_OPCODES_H

#include <stddef.h>
#include <stdint.h>

#include "features/schema.h"

/* The TG_OPCODES names with a blank between them, in order. Two are no longer in use (trace, tuple-select) and keep
   their numbers. */
extern const char tg_opcode_names[];

enum { TG_OPCODE_CONVOLUTION = 26, TG_OPCODE_DOT = 34, TG_OPCODE_RESHAPE = 75 };

/* Finds a number by its name. */
typedef struct tg_opcode_table {
    uint8_t slot[256]; /* a number, or 0 */
    const char *name[TG_OPCODES + 1];
    size_t size[TG_OPCODES + 1];
} tg_opcode_table;

void tg_opcode_table_fill(tg_opcode_table *table);
uint8_t tg_opcode_of(const tg_opcode_table *table, const uint8_t *name, size_t size);

#endif
