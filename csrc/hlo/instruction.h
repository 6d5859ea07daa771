/* One HloInstructionProto: its row of node features, its opcode, and what it uses. */
#ifndef TG_INSTRUCTION_H
#define TG_INSTRUCTION_H

#include "features/opcodes.h"
#include "hlo/ids.h"
#include "hlo/reader.h"

/* Further columns, those of the third place of the Kaggle competition, by the names that it gave them. Lists are
   padded with -1. */
enum {
    TG_COLLAPSED_SLICE_DIMS = 0,
    TG_GATHER_SLICE_SIZES = 3,
    TG_HAS_DYNAMIC_COM = 8, /* whether the module has dynamic shapes */
    TG_INDEX_VECTOR_DIM,
    TG_INDICES_ARE_SORTED,
    TG_IS_ROOT_OF_COM,
    TG_LHS_BATCH,
    TG_LHS_CONTRACTING = TG_LHS_BATCH + 3,
    TG_OFFSET_DIMS = TG_LHS_CONTRACTING + 3,
    TG_RHS_BATCH = TG_OFFSET_DIMS + 3,
    TG_RHS_CONTRACTING = TG_RHS_BATCH + 3,
    TG_START_INDEX_MAP = TG_RHS_CONTRACTING + 3,
    /* Of operands 0 and 1 of a convolution or dot: columns 21-28 of their rows. */
    TG_OPERAND_SHAPES = TG_START_INDEX_MAP + 3,
    TG_SHAPE_COLUMNS = 8,
    TG_EXTRA_FEATURES = TG_OPERAND_SHAPES + 2 * TG_SHAPE_COLUMNS
};

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

#endif
