/* The parameters of measured configs: cells (a column's number, a node's digits) and the values that each takes. */
#ifndef TG_CELLS_H
#define TG_CELLS_H

#include <stdint.h>

#include "base/status.h"

/* numbers (C, M): which of the values of its column each of cells (C, M, W) bytes has, in the order in which they first
   come. So columns that always change together have equal numbers. */
tg_status tg_cell_values(int32_t *numbers, const uint8_t *cells, int64_t C, int64_t M, int64_t W,
                         tg_error *err);

#endif
