/* One HloInstructionProto: its row of node features, its opcode, and what it uses. */
#ifndef TG_INSTRUCTION_H
#define TG_INSTRUCTION_H

#include "features/further.h"
#include "features/opcodes.h"
#include "hlo/ids.h"
#include "hlo/reader.h"

/* What all instructions of a file share. */
typedef struct tg_featurizer {
    tg_opcode_table opcodes;
    float empty[TG_NODE_FEATURES],
        empty_extra[TG_EXTRA_FEATURES]; /* rows of an instruction without any field */
} tg_featurizer;

/* `padding` (0 or -1) stands in columns of lists that have no sum and are shorter: 31-36, 95-98, 101-104, 134-139. */
void tg_featurizer_fill(tg_featurizer *featurizer, int padding);

typedef struct tg_instruction {
    int64_t id;
    uint8_t opcode;
    tg_ids operands, called; /* ids, in the order of the file */
} tg_instruction;

/* row(140) and `instruction`, whose lists keep their room, from the message w. What depends on the rest of the module
   is left: column 0, is_root, and of extra(TG_EXTRA_FEATURES), which may be NULL, the flags of module and root (0) and
   the shapes of operands (-2). */
tg_status tg_hlo_instruction(tg_hlo_reader *r, tg_wire w, const tg_featurizer *featurizer, float *row,
                             float *extra, tg_instruction *instruction);

/* Add all numbers of a field to a list. */
tg_status tg_hlo_collect(const tg_hlo_reader *r, tg_ids *ids, const tg_wire_field *f);

#endif
