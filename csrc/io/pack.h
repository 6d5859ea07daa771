/* Pack files: one graph in a form that is mapped into memory and used in place. A header of fixed size says where
   each array begins and what its checksum is; the configs are the numbers of codes.h. Opening reads the header only. What
   the header claims is checked against the file's size before anything else is read; contents have separate
   checksums. Numbers are little-endian. (packwriter.c writes.)

     0  magic (8 bytes)        8  version u32      12  kind u32 (tg_pack_kind)      16  bytes of the file u64
    24  size of the source u64, 32 its time of change in ns i64, 40 CRC of its zip directory u32; 0 without one
    44  number of entries u32, then 64 + 64 i: entry of array i of the kind, all zero if the pack does not have it:
          item size u32, CRC u32, offset u64, bytes u64, shape 3 x u64, type u64 (TG_ANY_RUNTIME alone: the letter
          'f' or 'i'), 8 zero bytes
  1020  CRC of the 1020 bytes before; what is not mentioned is zero

   Version 1 has the published kinds, layout and tile, and the arrays before TG_ANY_NODES; version 2 has the graphs of
   any schema, and the others. Arrays lie in the order of tg_part, each at the next multiple of 64 (TG_CODES and
   TG_ANY_DIGITS: of 4096), with zeros between them. */
#ifndef TG_PACK_H
#define TG_PACK_H

#include "base/cancel.h"
#include "configs/codes.h"
#include "io/source.h"

#define TG_PACK_HEADER 1024

typedef enum tg_pack_kind { TG_PACK_LAYOUT, TG_PACK_TILE, TG_PACK_ANY } tg_pack_kind;

typedef enum tg_part {
    TG_NODE_FEAT,      /* f32 (N,140) */
    TG_NODE_OPCODE,    /* u8 (N) */
    TG_EDGE_INDEX,     /* i64 (E,2) */
    TG_NODE_SPLITS,    /* i64 (S) */
    TG_CONFIG_RUNTIME, /* i64 (C) */
    TG_CONFIG_NODES,   /* i64 (K), layout */
    TG_CONFIG_FEAT,    /* f32 (C,24), tile */
    TG_NORMALIZERS,    /* i64 (C), tile */
    TG_CODES,          /* u8, u16 or u32 (C,K,3), layout */
    TG_TABLE,          /* i8 (entries,6), layout */
    TG_ANY_NODES,      /* f32 (N,F) */
    TG_ANY_OPCODE,     /* u8 (N), or none */
    TG_ANY_EDGES,      /* i64 (E,2) */
    TG_ANY_GRAPH,      /* f32 (G), or none */
    TG_ANY_RUNTIME,    /* i64 or f64 (C) */
    TG_ANY_VALID,      /* u8 (C) of 0 and 1, or none */
    TG_ANY_REPEATS,    /* f64 (C,R), or none */
    TG_ANY_CONFIGS,    /* f32 (C,T), or none; then */
    TG_ANY_IDS,        /* i64 (K), and */
    TG_ANY_DIGITS,     /* i8 (C,K,D), or none */
    TG_ANY_SCHEMA,     /* u8: its text, which is JSON */
    TG_PARTS
} tg_part;

/* What identifies the .npz that a pack was made from. */
typedef struct tg_origin {
    int64_t size, changed; /* bytes, ns */
    uint32_t directory;    /* CRC of the zip directory, and so of the CRCs of all members */
} tg_origin;

typedef struct tg_pack_array {
    int itemsize; /* 0: the pack has no such array */
    char type;    /* as NumPy writes it: 'f', 'i' or 'u' */
    uint32_t crc;
    int64_t offset, bytes;
    int64_t shape[3]; /* unused lengths are 1 */
} tg_pack_array;

typedef struct tg_pack {
    tg_pack_kind kind;
    tg_origin origin;
    int64_t size; /* of the file */
    tg_pack_array part[TG_PARTS];
} tg_pack;

/* Whether packs of this kind can have that array. */
int tg_pack_takes(tg_pack_kind kind, tg_part part);

/* *checksum = one of all arrays and their shapes, out of the header: only that is read of the file. */
tg_status tg_pack_checksum(const char *path, uint32_t *checksum, tg_error *err);

/* Place of an array's entry in the header. */
int tg_part_entry(tg_part part);

/* Name of an array in errors and in Python, its dimensions, the bytes of an item (0: 1, 2 or 4), the type as NumPy
   writes it: 'f', 'i' or 'u', or '?' for 'f' or 'i', and the length that its last dimension must have, or -1. */
const char *tg_part_name(tg_part part);
int tg_part_ndim(tg_part part);
int tg_part_itemsize(tg_part part);
int64_t tg_part_last(tg_part part);
char tg_part_type(tg_part part);

/* Parse head(n), the first TG_PACK_HEADER bytes of a file of `size` bytes, or all of a shorter one. When this
   returns TG_OK every array lies inside the file and the shapes agree with each other. */
tg_status tg_pack_parse(tg_pack *pack, const uint8_t *head, size_t n, int64_t size, tg_error *err);

/* Open, check and map the pack at `path`: the header, and the checksum of the schema, which says how to read the rest.
   Close `source` with tg_source_close, not after an error. */
tg_status tg_pack_open(tg_pack *pack, tg_source *source, const char *path, tg_error *err);

/* head(TG_PACK_HEADER) of a pack whose fields are set; places and size of the file are worked out from the item
   sizes and shapes, which must be valid. */
void tg_pack_header(tg_pack *pack, uint8_t *head);

/* Where array `part` begins if what lies before it ends at `end`; INT64_MAX when that overflows. */
int64_t tg_pack_place(tg_part part, int64_t end);

/* Compare the checksum of one array of a mapped pack: bytes (pack->size). */
tg_status tg_pack_check_part(const tg_pack *pack, const uint8_t *bytes, tg_part part, tg_error *err);

/* Check the configs before they are used: their checksums, and the rules of tg_pack_check for layout configs. */
tg_status tg_pack_check_configs(const tg_pack *pack, const uint8_t *bytes, tg_cancel *cancel, tg_error *err);

/* Check all there is: every checksum, the zeros between arrays, the digits of the table, and that its entries are
   different and the numbers of the configs below their count. */
tg_status tg_pack_check(const tg_pack *pack, const uint8_t *bytes, tg_cancel *cancel, tg_error *err);

#endif
