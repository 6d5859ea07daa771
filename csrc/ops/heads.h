/* Softmax attention in heads (Vaswani et al. 2017), for ops whose inputs are q, k, v. Scores of some queries
   and a block of keys are made at a time and never kept: forward saves the logarithm of the sum of a row's
   weights per head, backward makes the weights again from it (Dao et al. 2022).
   Keys are one group, or one per config where k has rows per node and config. */
#ifndef TG_HEADS_H
#define TG_HEADS_H

#include "ops/op.h"

enum { TG_Q, TG_K, TG_V };
enum { TG_LSE }; /* saved: (rows of q, heads) */
enum {
    TG_HEAD_ROWS = 96,   /* of a tile: whole register tiles of every instruction set */
    TG_HEAD_BLOCK = 128, /* of the other side at a time: scores stay in L2 */
};

/* Row j of group g is at + g * step + j * ld. */
typedef struct tg_groups {
    const float *at;
    int64_t step, ld;
} tg_groups;

/* Sizes, and places. A block is `block` keys of a head, packed: k for q k^T; v for p v, in backward for
   dy v^T; turned, in backward, is k for ds k. */
typedef struct tg_heads {
    int heads, D, V; /* columns of a head of q and k, of v and y */
    int groups, block, blocks;
    int64_t keys; /* of a group */
    float scale;
    int64_t k_floats, v_floats, turned_floats; /* of a block */
    float *k, *v, *turned;   /* (groups,heads,blocks); if tiles are of keys, one block, of a thread */
    float *s, *d;            /* of a thread: scores (queries,block); backward: their gradient */
    float *top, *sum, *fade; /* forward, of a thread: (queries) */
    float *along;            /* backward: dy y (rows of q, heads) */
} tg_heads;

/* Of any op whose inputs are q, k, v: q and k have as many columns, and these and those of v make `heads` heads. */
tg_status tg_check_heads(const tg_op_plan *p, int heads, tg_error *err);
/* That they have rows of the same kind. */
tg_status tg_check_same_rows(const tg_op_plan *p, tg_error *err);
/* Checks q, k, v and `heads`; plans the result and what is kept. */
tg_status tg_heads_plan(tg_op_plan *p, int heads, tg_error *err);

/* tile_keys: tiles are some keys, which meet TG_HEAD_BLOCK queries at a time; else some queries, which meet
   the blocks. */
void tg_heads_carve(const tg_exec *e, int back, tg_carver *c, int heads, int64_t keys, int tile_keys,
                    tg_heads *h);

/* Packs all blocks, on threads: from `begin` of a phase whose tiles are queries. */
void tg_heads_pack(const tg_exec *e, int back, const tg_heads *h, tg_groups k, tg_groups v);
/* One block of `keys` rows of a head, to the places of the thread. */
typedef struct tg_block {
    int keys;
    const float *k, *v, *turned;
} tg_block;
tg_block tg_heads_pack_tile(const tg_exec *e, const tg_tile *t, const tg_heads *h, int head);
/* One of those of tg_heads_pack. */
tg_block tg_heads_block(const tg_heads *h, int64_t group, int head, int block);

/* Group of the tile's row i, and how many rows from there on have the same. */
int tg_heads_group(const tg_exec *e, const tg_tile *t, const tg_heads *h, int i, int64_t *group);

/* A forward phase by config over the output: y and the saved sums of the tile's rows. */
void tg_heads_forward(const tg_exec *e, const tg_tile *t, const tg_heads *h);

/* A backward phase over the output: `along` of the tile's rows. */
void tg_heads_along(const tg_exec *e, const tg_tile *t, const tg_heads *h, const float *dy);

/* The tile's rows of the gradient of input i, 0 unless they are added to; NULL: not wanted. `written`: see
   tg_adds_dx. */
float *tg_heads_rows(const tg_exec *e, const tg_tile *t, int i, unsigned written);

/* Where gradients of a head are added; NULL: not wanted. */
typedef struct tg_head_grads {
    float *q, *k, *v;
    int64_t ldq, ldk, ldv;
} tg_head_grads;
/* Of `rows` queries, from `row` on `stride` apart, and a block. */
void tg_heads_back(const tg_exec *e, const tg_tile *t, const tg_heads *h, int head, int64_t row, int rows,
                   int64_t stride, tg_block block, tg_head_grads to);

#endif
