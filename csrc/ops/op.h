/* What an op is: a forward and a backward over tiles of one slate, with everything they touch handed to them in
   a tg_exec. op.c owns threads and the loop over tiles; kernels own the arithmetic; the plan (model/) owns
   memory. */
#ifndef TG_OP_H
#define TG_OP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/digits.h"
#include "graph/csr.h"
#include "kernels/kernels.h"

enum { TG_MAX_IN = 2, TG_MAX_PARAMS = 5, TG_MAX_ATTRS = 7, TG_DIGIT_ROWS = 8, TG_MAX_CHUNKS = 32 };
enum { TG_FORWARD, TG_REVERSE, TG_BOTH, TG_DIRECTIONS };

/* What a row of a slot is. */
typedef enum { TG_SPACE_NODE, TG_SPACE_NODE_CONFIG, TG_SPACE_CONFIG, TG_SPACE_SLATE, TG_SPACES } tg_space;
typedef struct tg_shape {
    tg_space space;
    int cols;
} tg_shape;

/* One graph with C of its configs, as the ops see it. Everything is checked before a slate is made. */
typedef struct tg_slate {
    int32_t N, C, K;
    const uint8_t *opcode;                  /* (N) */
    const int8_t *layout;                   /* (N,6) in -2..5, or NULL */
    const int32_t *config_of;               /* (N): position in the config nodes, or -1 */
    const int8_t *digits;                   /* (C,K,18) in -1..5 */
    const float *config_feat;               /* (C,T) or NULL */
    const tg_csr *senders[TG_DIRECTIONS];   /* per receiver, the nodes it takes the mean of */
    const tg_csr *receivers[TG_DIRECTIONS]; /* per sender, the nodes that receive from it */
    const float *inv_degree[TG_DIRECTIONS]; /* (N): 1 / number of senders, 0 without */
} tg_slate;

typedef enum { TG_INIT_UNIFORM, TG_INIT_NORMAL, TG_INIT_CONSTANT } tg_init;
typedef struct tg_param_spec {
    const char *name;
    int rows, cols; /* (rows, cols), or (rows,) when cols is 0 */
    tg_init init;
    float value; /* bound, standard deviation, or constant */
} tg_param_spec;

/* An attribute: a whole number, a real one if `real`, or one of `choices` ("none|relu|gelu", the value is the
   position). */
typedef struct tg_attr_spec {
    const char *name;
    double fallback;
    const char *choices;
    int real;
} tg_attr_spec;

/* What an op says about itself once its inputs and attributes are known. */
typedef struct tg_op_plan {
    const double *attr;
    int n_in;
    tg_shape in[TG_MAX_IN];
    int table_cols; /* columns of a shared table, 0 if none */
    tg_shape out;
    int n_params;
    tg_param_spec params[TG_MAX_PARAMS];
    unsigned needs_in;  /* bit i: backward reads input i */
    int needs_stats;    /* forward and backward read the norm statistics of input 0 */
    int makes_stats;    /* forward writes the norm statistics of its output */
    int inplace_in;     /* the gradient of this input may be written over dy; -1: none */
    int overwrites_in0; /* the gradient of input 0 may be written over input 0 */
    int recompute;      /* forward is cheap: make the output again for backward instead of keeping it */
    int pulls;          /* input 0 is read tile by tile (tg_pull) and its gradient handed on so (tg_push) */
    int whole_nodes;    /* tiles must hold all configs of a node */
} tg_op_plan;

/* Rows worked on while they are in cache: whole items, or some of the configs of one node. */
typedef struct tg_tile {
    int64_t row; /* first row in the space of the loop */
    int rows;
    int64_t item; /* row = item * rows per item + from */
    int from;
    int64_t chunk, chunk_begin, chunk_end; /* the chunk it belongs to, and its items */
    int first, last;                       /* of the tiles of its chunk */
    int thread;
} tg_tile;

/* One call of an op. Arrays of a node x config slot are (N, C, cols), node-major; where these are written, those
   of a node slot may stand, C being 1. A slot may exist only as
   tiles in cache: then the call that reads it holds the call that makes it (`from`), and hands its gradient
   on to that call's backward (`into`). */
typedef struct tg_exec {
    const struct tg_op *op;
    const tg_kernels *k;
    const tg_slate *slate;
    const double *attr;
    tg_shape in[TG_MAX_IN], out;
    const float *x[TG_MAX_IN]; /* NULL: input not given, or made by `from` */
    struct tg_exec *from;
    const float *x_stats; /* (2, C, cols of in[0]): mean, 1/std over nodes */
    float *y, *y_stats; /* y_stats NULL: not wanted. Backward: y is given with dy_fix unless TG_FIXED_BY_OP */
    float *dy;
    const float *dy_fix; /* (3, C, cols of out) or NULL: subtract fix[0] + fix[1] * (y - fix[2]) from dy */
    struct tg_exec *into;
    float *dx[TG_MAX_IN]; /* NULL: not wanted, or handed to `into` */
    int dx_add[TG_MAX_IN];
    float *dx_fix; /* where norm leaves the fix of dx[0]; NULL: it is applied at the end */
    int dx_fix_add;
    const float *w[TG_MAX_PARAMS];
    float *dw[TG_MAX_PARAMS];
    int dw_add[TG_MAX_PARAMS];
    int table_cols;
    float *ddigits; /* (C,K,18,8) or NULL: gradient per digit value (config_linear) */
    int training, whole_nodes;
    uint64_t key; /* dropout: from seed, step and op number */
    /* Memory of this call, see tg_place_call. */
    float *shared, *partials, *scratch, *tiles;
    int64_t partial_stride, scratch_stride, tile_stride;
    int tile_rows;
    int threads; /* scratch exists for so many */
} tg_exec;

/* Floats an op needs of every kind of memory, and a rough number of operations. */
typedef struct tg_sizes {
    int64_t shared;  /* for the call */
    int64_t partial; /* for every chunk: partial sums */
    int64_t scratch; /* for every thread */
    double work;
} tg_sizes;

/* Who applies dy_fix in backward: the loop, to all of dy before the tiles; the op, by reading dy through tg_dy; the
   op, which makes y again by itself. */
typedef enum { TG_FIXED_BEFORE, TG_FIXED_IN_TILES, TG_FIXED_BY_OP } tg_fixes;

typedef struct tg_op {
    const char *name;
    int min_in, max_in;
    int wants_table; /* index of the parameter that must be shared with an embedding, or -1 */
    int reduces;     /* the loop runs over the rows of input 0, not of the output */
    int joins;       /* input 1 is one row per slate */
    tg_fixes fixes_dy;
    int tile_rows; /* about so many rows in a tile; 0: TILE of op.c */
    tg_attr_spec attrs[TG_MAX_ATTRS];
    tg_status (*plan)(tg_op_plan *plan, tg_error *err);
    /* e->tile_rows, shapes and slate are set; of pointers only whether they are NULL counts */
    tg_sizes (*sizes)(const tg_exec *e, int back);
    void (*begin)(const tg_exec *e, int back);                     /* before the tiles; NULL: nothing */
    void (*forward)(const tg_exec *e, const tg_tile *t, float *y); /* y: rows of the tile */
    void (*backward)(const tg_exec *e, const tg_tile *t, const float *dy); /* dy: rows of the tile */
    void (*end)(const tg_exec *e, int back); /* after the tiles; NULL: nothing */
} tg_op;

/* The op table: one line per op, one file per op. */
#define TG_OP_LIST(OP) OP(embedding) OP(config_linear) OP(linear) OP(sage) OP(instance_norm) OP(mix) OP(pool)
#define TG_DECLARE(name) extern const tg_op tg_op_##name;
TG_OP_LIST(TG_DECLARE)
#undef TG_DECLARE

extern const tg_op *const tg_ops[]; /* NULL-terminated */
const tg_op *tg_find_op(const char *name);

/* ---- shared by the op files (op.c) ---- */

/* Rows per item of a slot: an item is a node (N, N*C), a config row, or the slate. */
static inline int64_t tg_items(const tg_slate *s, tg_space space) {
    return space == TG_SPACE_CONFIG ? s->C : space == TG_SPACE_SLATE ? 1 : s->N;
}
static inline int tg_per_item(const tg_slate *s, tg_space space) {
    return space == TG_SPACE_NODE_CONFIG ? s->C : 1;
}
static inline int64_t tg_rows(const tg_slate *s, tg_space space) {
    return tg_items(s, space) * tg_per_item(s, space);
}
static inline int tg_has_nodes(tg_space space) {
    return space == TG_SPACE_NODE || space == TG_SPACE_NODE_CONFIG;
}
/* Rows per item of input 0, of the output: the configs of a node, or 1. */
static inline int tg_per_in(const tg_exec *e) { return tg_per_item(e->slate, e->in[0].space); }
static inline int tg_per_out(const tg_exec *e) { return tg_per_item(e->slate, e->out.space); }

/* Items are cut into chunks fixed by the problem; each chunk has its own partial sums. */
typedef struct tg_loop {
    int64_t items, chunks;
    int per; /* rows per item */
} tg_loop;
tg_loop tg_loop_of(const tg_exec *e);

/* Run a call, and those it pulls from and pushes into. */
void tg_run(tg_exec *e, int back);

/* Set tile_rows for the call and those within it, and give them all their places in memory from `base` (NULL:
   only count). Returns the floats used. */
int64_t tg_place_call(tg_exec *e, int back, float *base);

static inline float *tg_partial(const tg_exec *e, const tg_tile *t) {
    return e->partials + t->chunk * e->partial_stride;
}
static inline float *tg_scratch(const tg_exec *e, const tg_tile *t) {
    return e->scratch + t->thread * e->scratch_stride;
}
/* The tile's rows of input 0. */
const float *tg_pull(const tg_exec *e, const tg_tile *t);
/* Where the tile's rows of the gradient of input 0 go, and: they are there. NULL if nobody wants them. */
float *tg_dx(const tg_exec *e, const tg_tile *t);
void tg_push(const tg_exec *e, const tg_tile *t, const float *dx);
/* The tile's rows of the gradient of the output, the fix applied. */
const float *tg_dy(const tg_exec *e, const tg_tile *t, const float *dy);

/* fn(context, i) for i < n on the threads of the call, if `work` operations in all are worth it. */
typedef void tg_part_fn(const tg_exec *e, void *context, int64_t i);
void tg_parts(const tg_exec *e, int64_t n, double work, tg_part_fn *fn, void *context);

/* A sum over all tiles into dst(n) [+=]. The first chunk adds to dst itself, the others to partial[at .. at + n).
   tg_share: where the tile adds its share, once per tile; tg_sum_shares: after the tiles. */
float *tg_share(const tg_exec *e, const tg_tile *t, int64_t at, int64_t n, float *dst, int add);
void tg_sum_shares(const tg_exec *e, int64_t at, int64_t n, float *dst);
/* dst(n) = [dst +] sum over the chunks of partial[at .. at + n) */
void tg_sum_partials(const tg_exec *e, int64_t at, int64_t n, float *dst, int add);

/* Pack w(n,k), or with `transposed` w(k,n), its columns on threads. */
void tg_pack(const tg_exec *e, int transposed, int n, int k, const float *w, int64_t ldw, float *b);

/* c(m,n) = [c +] a(m,k) B [+ bias], rows on threads */
void tg_gemm_rows(const tg_exec *e, int64_t m, int n, int k, const float *a, int64_t lda, const float *b,
                  float *c, int64_t ldc, const float *bias, int add);

/* ---- instance norm, fused into the ops before and after (norm.c) ---- */

/* Statistics: every chunk holds shift, sum, sum of squares (3 n floats, n = C * cols of the output) of its
   nodes, from the start of its partial sums. */
static inline int64_t tg_stats_floats(const tg_exec *e) {
    return e->y_stats == NULL ? 0 : 3 * (int64_t)tg_per_out(e) * e->out.cols;
}
void tg_stats_tile(const tg_exec *e, const tg_tile *t, const float *y);
void tg_stats_end(const tg_exec *e);
/* The statistics of x (N,C,cols), for callers without a producer. */
void tg_stats_of(const tg_exec *e, const float *x, int cols, float *stats);

/* The tile's rows [at, at + rows) of input 0, given as x, normalised into y. */
void tg_normalize(const tg_exec *e, const tg_tile *t, int at, int rows, const float *x, float *y);

/* Gradient through the norm of input 0. Per chunk: sums over its nodes of d and of d * xh, where d is the
   gradient of the normalised value xh (2 n floats at `sums` of its partial sums, n = C * cols of the input; the
   third n are room for the fix). */
static inline int64_t tg_norm_floats(const tg_exec *e) {
    return e->x_stats == NULL ? 0 : 3 * (int64_t)tg_per_in(e) * e->in[0].cols;
}
/* dx[0] = [dx +] d / std for the tile's rows [at, at + rows), and the sums. d, x: those rows. */
void tg_norm_tile(const tg_exec *e, const tg_tile *t, int at, int rows, const float *d, const float *x,
                  float *sums);
/* The rest of the gradient depends on the sums over all nodes. It is linear in x, so that it can wait until
   dx is read: dx_fix. `at`: where the sums are in the partial sums. */
void tg_norm_end(const tg_exec *e, int64_t at);
/* g(N,C,cols) -= fix[0] + fix[1] * (x - fix[2]) */
void tg_apply_fix(const tg_exec *e, const float *fix, const float *x, int cols, float *g);

/* Fill a parameter spec; `fan_in` > 0: PyTorch's default uniform(-1/sqrt(fan_in), +). */
tg_param_spec tg_weight(const char *name, int rows, int cols, int fan_in);

/* Weight (O,F) and bias (O) as the next two parameters; xavier: Xavier-normal weight, bias 0.01 (first
 * place). */
void tg_add_linear(tg_op_plan *plan, const char *weight, const char *bias, int O, int F, int xavier);

#endif
