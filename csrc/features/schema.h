/* The published schemas of TpuGraphs, layout and tile, in numbers. This is their one home: no other file of the core
   writes them out, and Python reads them as _core.SCHEMA. */
#ifndef TG_SCHEMA_H
#define TG_SCHEMA_H

#define TG_NODE_FEATURES   140 /* columns of node_feat */
#define TG_SCALED_FEATURES 134 /* columns before the layout of the output, which is six digits */
#define TG_SHAPE_COLUMN    21  /* the first of six sizes of the output's dimensions, 0 past the rank */
#define TG_TILE_FEATURES   24  /* columns of config_feat of a tile graph */
#define TG_OPCODES         120 /* rows of the published opcode embeddings */

#define TG_LAYOUT_DIGITS 6    /* of one tensor: its layout */
#define TG_TENSORS       3    /* of a configurable node: output, input and kernel */
#define TG_DIGITS        18   /* of a configurable node: TG_TENSORS x TG_LAYOUT_DIGITS */
#define TG_DIGIT_MIN     (-1) /* no such dimension */
#define TG_DIGIT_MAX     5
#define TG_DIGIT_VALUES  7      /* TG_DIGIT_MIN..TG_DIGIT_MAX */
#define TG_DIGIT_STATES  8      /* those and, before them, "not configurable": rows of an embedding */
#define TG_LAYOUT_CODES  117649 /* 7^6 layouts of one tensor */

/* What any schema may have. */
#define TG_MOST_DIGITS       64 /* columns of a configurable node */
#define TG_MOST_DIGIT_VALUES 32 /* of one of them */

#endif
