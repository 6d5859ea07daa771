/* The parameters of measured configs: cells (a column's number, a node's digits) and the values that each takes. */
#ifndef TG_CELLS_H
#define TG_CELLS_H

#include <stdint.h>

#include "base/status.h"

/* numbers (C, M): which of the values of its column each of cells (C, M, W) bytes has, in the order in which they first
   come. So columns that always change together have equal numbers. */
tg_status tg_cell_values(int32_t *numbers, const uint8_t *cells, int64_t C, int64_t M, int64_t W,
                         tg_error *err);

/* Where the values of P parameters stand: value v of parameter p in row[first[p] + v] of measured cells. */
typedef struct tg_cell_map {
    int64_t P, S, M;
    const int64_t *first; /* (P) */
    const int64_t *row;   /* (S) */
    const int64_t *of;    /* (M): the parameter that sets each cell */
} tg_cell_map;

/* made (n, M, W) bytes: the cells of codes (n, P), copied out of cells (R, M, W). 0 for a code or
   place that does not exist. */
int tg_cells_make(uint8_t *made, const tg_cell_map *map, const int32_t *codes, int64_t n,
                  const uint8_t *cells, int64_t R, int64_t W);

/* changes (n, S) += by how much the score of each of codes (n, P) changes if a parameter takes another value, to the first
   order: slope (n, M, W, V) is the derivative by "digit d of cell m has value v + low", digits (R, M, W). Codes and places
   are as tg_cells_make takes them, digits in low..low + V - 1; 0 if they are not. */
int tg_cells_changes(float *changes, const tg_cell_map *map, const int32_t *codes, int64_t n,
                     const float *slope, const int8_t *digits, int64_t R, int64_t W, int64_t V, int low);

#endif
