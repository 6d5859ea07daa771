/* Broadcasting of inputs with different rows, as in NumPy: rows have two axes, items (nodes, edges ...) and configs,
   and an input that lacks one is repeated along it. For ops that read up to TG_JOINED such inputs (add, concat, gate). */
#ifndef TG_BROADCAST_H
#define TG_BROADCAST_H

#include "ops/op.h"

enum { TG_JOINED = 4 };

/* The space of the rows of all inputs together: it has items if one of them does, and configs if one does. Refuses
   inputs with different items. */
tg_status tg_join_inputs(const tg_op_plan *p, tg_space *space, tg_error *err);

/* y(rows of the tile, n) = [y +] input i, repeated; rows of y are ldy apart */
void tg_spread(const tg_exec *e, const tg_tile *t, int i, float *y, int64_t ldy, int add);

/* The sums over the tiles of each input that is repeated over items, of a chunk: what the room of such an op
   begins with. */
typedef struct tg_joined {
    float *places[TG_JOINED];
} tg_joined;

/* The `carve` and the `end` of backward of such an op. */
void tg_carve_joined(const tg_exec *e, int back, tg_carver *c, void *room);
void tg_gather_end(const tg_exec *e);
/* The gradient of input i from that of its repeated form, dy(rows of the tile, n): summed over what it was repeated
   along. Rows of dy are ldd apart. Call it from the last input on: of a slot that is given twice, the gradient of the
   first place is added. */
void tg_gather(const tg_exec *e, const tg_tile *t, int i, const float *dy, int64_t ldd);

#endif
