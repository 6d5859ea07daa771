/* Further columns of nodes, after the published ones, that only programs in protocol buffers have: those of the third
   place of the Kaggle competition, under its names. Lists are padded with -1. */
#ifndef TG_FURTHER_H
#define TG_FURTHER_H

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

#endif
