/* An op: a forward and a backward over tiles of one slate, which get everything they touch in a tg_exec. op.c
   owns threads and loops; kernels own the arithmetic; the plan (model/) owns memory.

   An op is one file that ends in a `const tg_op tg_op_<name>` and has one line in TG_ALL_OPS. Everything else
   (binding, Python faces, file checks, tests, documentation) reads that structure. */
#ifndef TG_OP_H
#define TG_OP_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/attr.h"
#include "base/status.h"
#include "graph/csr.h"
#include "kernels/kernels.h"
#include "ops/op_table.h"

enum {
    TG_MAX_IN = 6,
    TG_MAX_PARAMS = 20,
    TG_MAX_ATTRS = 16,
    TG_MAX_SAVED = 4,
    TG_MAX_PHASES = 4,
    TG_MAX_CHUNKS = 32,
    TG_TILE = 64,        /* rows: enough to amortise touching a weight gradient, few enough to stay in L2 */
    TG_ATTR_BYTES = 128, /* of an op's structure of attributes */
    TG_ROOM_BYTES = 256, /* of its structure of places in memory */
};
enum { TG_FORWARD, TG_REVERSE, TG_BOTH, TG_DIRECTIONS };
#define TG_DIRECTION_NAMES "forward|reverse|both"
#define TG_BELOW_ONE       0x1.fffffffffffffp-1 /* the highest dropout probability */

/* ---- row spaces: name, what a row is, items of slate s, rows per item ---- */
#define TG_SPACE_LIST(S)                                                                                     \
    S(NODE, "node", s->N, 1)                                                                                 \
    S(NODE_CONFIG, "node and config", s->N, s->C)                                                            \
    S(CONFIG_NODE, "configurable node", s->K, 1)                                                             \
    S(CONFIG_NODE_CONFIG, "configurable node and config", s->K, s->C)                                        \
    S(EDGE, "edge", s->E, 1)                                                                                 \
    S(EDGE_CONFIG, "edge and config", s->E, s->C)                                                            \
    S(CONFIG, "config", s->C, 1)                                                                             \
    S(SLATE, "graph", 1, 1)                                                                                  \
    S(UNIQUE, "unique cell", s->U, 1)

#define TG_SPACE_NAME(name, text, items, per) TG_SPACE_##name,
typedef enum { TG_SPACE_LIST(TG_SPACE_NAME) TG_SPACES } tg_space;
#undef TG_SPACE_NAME
#define TG_IN(name) (1u << TG_SPACE_##name) /* for masks of spaces */
enum {
    TG_IN_NODES = 1u << TG_SPACE_NODE | 1u << TG_SPACE_NODE_CONFIG,
    TG_IN_CONFIG_NODES = 1u << TG_SPACE_CONFIG_NODE | 1u << TG_SPACE_CONFIG_NODE_CONFIG,
    TG_IN_ANY = (1u << TG_SPACES) - 1,
};

typedef struct tg_shape {
    tg_space space;
    int cols;
} tg_shape;

/* One graph with C of its configs, as the ops see it. Everything is checked before a slate is made. */
typedef struct tg_slate {
    int32_t N, C, K, E, U;
    int digit_cols, digit_rows;             /* D digits of a cell; their values + 2 are in 0..digit_rows-1 */
    const uint8_t *opcode;                  /* (N) */
    const int8_t *layout;                   /* (N,6) in -2..5, or NULL */
    const int32_t *config_of;               /* (N): position in the config nodes, or -1 */
    const int32_t *config_node;             /* (K): node of a position */
    const int8_t *digits;                   /* (C,K,D): a cell is one configurable node of one config */
    const int32_t *unique_of;               /* (K,C): number of the unique cell that a cell equals, or NULL */
    const int32_t *unique_at;               /* (U): k * C + c of the first cell of that kind */
    const int32_t *ends[2];                 /* (E) each: consumer, operand of an edge */
    const tg_csr *senders[TG_DIRECTIONS];   /* per receiver, the nodes that send to it */
    const tg_csr *receivers[TG_DIRECTIONS]; /* per sender, the nodes that receive from it */
    const float *inv_degree[TG_DIRECTIONS]; /* (N): 1 / number of senders, 0 without */
} tg_slate;

/* ---- what an op declares ---- */

typedef enum { TG_INIT_UNIFORM, TG_INIT_NORMAL, TG_INIT_CONSTANT } tg_init;
typedef struct tg_param_spec {
    const char *name; /* the op's, set after planning; NULL: this call has no such parameter */
    int rows, cols;   /* (rows, cols), or (rows,) when cols is 0 */
    tg_init init;
    float value; /* bound, standard deviation, or constant */
} tg_param_spec;
/* Floats of a parameter of this shape. */
static inline int64_t tg_param_floats(int rows, int cols) { return (int64_t)rows * (cols == 0 ? 1 : cols); }

/* An attribute is a field of the op's own structure, written there when a step is built. */
#define TG_INT(type, field, fallback, low, high, doc)                                                        \
    {#field, TG_ATTR_INT, 0, fallback, low, high, NULL, doc, offsetof(type, field), NULL, NULL}
#define TG_REAL(type, field, fallback, low, high, doc)                                                       \
    {#field, TG_ATTR_REAL, 0, fallback, low, high, NULL, doc, offsetof(type, field), NULL, NULL}
#define TG_FLAG(type, field, doc)                                                                            \
    {#field, TG_ATTR_FLAG, 0, 0, 0, 1, NULL, doc, offsetof(type, field), NULL, NULL}
#define TG_FLAG_ON(type, field, doc) /* set unless turned off */                                             \
    {#field, TG_ATTR_FLAG, 0, 1, 0, 1, NULL, doc, offsetof(type, field), NULL, NULL}
#define TG_CHOICE(type, field, fallback, choices, doc)                                                       \
    TG_CHOICE_WITH(type, field, fallback, choices, doc, NULL, NULL)
#define TG_CHOICE_WITH(type, field, fallback, choices, doc, choice,                                          \
                       param) /* with `choice` there is `param` */                                           \
    {#field, TG_ATTR_CHOICE, 0, fallback, 0, 0, choices, doc, offsetof(type, field), choice, param}

typedef struct tg_in_spec {
    const char *name;
    unsigned spaces; /* what its rows may be */
    int optional;    /* those after it are, too */
} tg_in_spec;

/* What an op needs of a slate, and how it behaves. Decides which graphs it accepts, and how configs are cut
   into chunks. */
enum {
    TG_NEEDS_EDGES = 1 << 0,
    TG_NEEDS_DIGITS = 1 << 1,
    TG_NEEDS_OPCODE = 1 << 2,
    TG_NEEDS_LAYOUT = 1 << 3,
    TG_NEEDS_UNIQUE = 1 << 4,
    TG_ACROSS_CONFIGS = 1 << 5,     /* a row depends on other configs of the slate */
    TG_RANDOM = 1 << 6,             /* draws random numbers in training */
    TG_NEEDS_CONFIG_NODES = 1 << 7, /* reads config_of, config_node, or has rows of configurable nodes */
    /* A row depends on nodes beyond its neighbours: the inputs have the rows of all nodes, or of all
       configurable nodes. */
    TG_PER_GRAPH = 1 << 8,
};

/* The plan of one step: inputs and attributes are known; the op fills in the rest. */
typedef struct tg_op_plan {
    const void *attrs;
    int n_in;
    tg_shape in[TG_MAX_IN];
    int digit_cols, digit_rows;  /* of the slates */
    const tg_param_spec *shared; /* shapes of parameters taken from other steps; ends with name NULL */
    tg_shape out;
    tg_param_spec params[TG_MAX_PARAMS];
    tg_shape saved[TG_MAX_SAVED]; /* kept from forward to backward, from number 0 on; cols 0: none */
    unsigned flags;               /* of the op, for this step */
    unsigned needs_in;            /* bit i: backward reads input i */
    int needs_out;                /* backward reads the output */
    /* Fusion, all of it optional */
    int needs_stats;    /* forward and backward read the norm statistics of input 0 */
    int makes_stats;    /* forward writes the norm statistics of its output */
    int inplace_in;     /* the gradient of this input may be written over dy; -1: none */
    int overwrites_in0; /* the gradient of input 0 may be written over input 0 */
    int recompute;      /* forward is cheap: recompute the output for backward instead of keeping it */
    int pulls;          /* input 0 is read (tg_pull), and its gradient passed on (tg_push), tile by tile */
    int whole_nodes;    /* tiles must hold all configs of a node */
} tg_op_plan;

/* Rows worked on while they are in cache: whole items, or some of the configs of one node; in a phase by config,
   several nodes of one config. */
typedef struct tg_tile {
    int64_t row; /* first row in the space of the loop */
    int rows;
    int stride;   /* rows from one to the next: 1, by config the rows of an item */
    int64_t item; /* row = item * rows per item + from */
    int from;
    int64_t chunk, chunk_begin, chunk_end; /* the chunk it belongs to, and its items */
    int first, last;                       /* of the tiles of its chunk */
    int thread;
} tg_tile;

typedef struct tg_phase tg_phase;

/* Statistics of a chunk over the rows x(.,n) of an array: the first row, and sums of x - shift and of its
   square. */
typedef struct tg_moments {
    float *shift, *sum, *squares; /* (n) of chunk 0, carved as TG_PARTIAL */
} tg_moments;

/* One call of an op. Arrays of rows per node and config are (N, C, cols), node-major; a slot with rows per
   node is one with C = 1. A slot may exist only as tiles in cache: then the call that reads it refers to the
   call that makes it (`from`), and passes its gradient to that call's backward (`into`). */
typedef struct tg_exec {
    const struct tg_op *op;
    const tg_kernels *k;
    const tg_slate *slate;
    const void *attrs;
    int n_in;
    tg_shape in[TG_MAX_IN], out;
    const float *x[TG_MAX_IN]; /* NULL: input not given, or made by `from` */
    struct tg_exec *from;
    const float *x_stats; /* (2, C, cols of in[0]): mean, 1/std over nodes */
    float *y, *y_stats; /* y_stats NULL: not wanted. Backward: y is given with dy_fix unless TG_FIXED_BY_OP */
    float *saved[TG_MAX_SAVED];
    float *dy;
    const float *dy_fix; /* (3, C, cols of out) or NULL: subtract fix[0] + fix[1] * (y - fix[2]) from dy */
    struct tg_exec *into;
    float *dx[TG_MAX_IN]; /* NULL: not wanted, or passed to `into` */
    int dx_add[TG_MAX_IN];
    float *dx_fix; /* where norm leaves the fix of dx[0]; NULL: it is applied at the end */
    int dx_fix_add;
    tg_param_spec params[TG_MAX_PARAMS];
    const float *w[TG_MAX_PARAMS];
    float *dw[TG_MAX_PARAMS]; /* NULL: not wanted, or no such parameter */
    int dw_add[TG_MAX_PARAMS];
    float *ddigits; /* (C,K,D,rows) or NULL: gradient per digit value */
    int ddigits_add;
    int training, whole_nodes;
    uint64_t key;       /* of random numbers: from seed, step, op number and slate */
    uint64_t batch_key; /* the same for all slates of a step of training */
    /* Set by tg_place_call and tg_run. */
    const tg_phase *phase; /* that is running */
    float *partials, *tiles;
    tg_moments moments; /* of the output, if its statistics are wanted */
    float *norm_sums;   /* of chunk 0, see below */
    int64_t partial_stride, scratch_stride, tile_stride;
    int tile_rows;                 /* at most, in any phase */
    int phase_rows[TG_MAX_PHASES]; /* in each */
    double work;                   /* roughly, operations */
    int threads;                   /* number of threads with scratch memory */
    float *base;                   /* the memory of the call */
    int64_t floats;
    _Alignas(16) char room[TG_ROOM_BYTES]; /* the op's places, see tg_op.carve */
} tg_exec;

/* ---- memory of a call ----

   An op's `carve` is called twice: to measure, and to fill in its structure of places. */
typedef enum { TG_SHARED, TG_PARTIAL, TG_SCRATCH, TG_MEMORIES } tg_memory;
typedef struct tg_carver {
    float *base[TG_MEMORIES]; /* NULL while measuring */
    int64_t at[TG_MEMORIES], stride[TG_MEMORIES];
    int copies[TG_MEMORIES];
    double work;         /* the op adds its number of operations, roughly */
    const char *closing; /* checked builds: check the redzones instead, for this op */
} tg_carver;
/* Reserve a place for `floats`, on a cache line: once for the call, once for every chunk (partial sums), or
   once for every thread (scratch). For the latter two it returns that of number 0: see tg_of_chunk,
   tg_of_thread. */
float *tg_carve(tg_carver *c, tg_memory kind, int64_t floats);

static inline float *tg_of_chunk(const tg_exec *e, const tg_tile *t, float *place) {
    TG_ASSERT(place != NULL);
    return place + t->chunk * e->partial_stride;
}
static inline float *tg_of_thread(const tg_exec *e, const tg_tile *t, float *place) {
    TG_ASSERT(place != NULL && t->thread >= 0 && t->thread < e->threads);
    return place + t->thread * e->scratch_stride;
}

/* ---- the op ---- */

/* Who applies dy_fix in backward: the loop, to all of dy before the tiles; the op, by reading dy through
   tg_dy; or the op, which recomputes y itself. */
typedef enum { TG_FIXED_BEFORE, TG_FIXED_IN_TILES, TG_FIXED_BY_OP } tg_fixes;

/* A phase is one loop over rows, on threads; a sum over all rows is complete in its `end`, so that the next phase can
   read it. */
/* Input i: TG_OVER_INPUT - i. WIDEST: the first input with configs, else input 0, for inputs with the same items. Else a
   tg_space. */
enum { TG_OVER_OUTPUT = -1, TG_OVER_INPUT = -2, TG_OVER_WIDEST = TG_OVER_INPUT - TG_MAX_IN };
struct tg_phase {
    int over;
    int grain;       /* rows of a chunk if there are few rows: fewer if a row is much work; 0: TG_TILE */
    int most_chunks; /* fewer if the sums of a chunk are large; 0: TG_MAX_CHUNKS */
    int by_config;   /* for sums over nodes too large to keep for all configs in every chunk: a chunk is some
                        nodes of one config, number t->from; sums are per config, so that dst of tg_share is
                        (C,n) */
    void (*begin)(const tg_exec *e);                               /* before the tiles; NULL: nothing */
    void (*forward)(const tg_exec *e, const tg_tile *t, float *y); /* over the output: y, rows of the tile */
    void (*backward)(const tg_exec *e, const tg_tile *t, const float *dy); /* likewise */
    void (*end)(const tg_exec *e); /* after the tiles; NULL: nothing */
};

typedef struct tg_op {
    const char *name, *doc;
    tg_in_spec inputs[TG_MAX_IN];
    const char *params[TG_MAX_PARAMS]; /* their names; plan decides which a step has, and their shapes */
    const tg_attr *attrs;              /* TG_ATTRS, at most TG_MAX_ATTRS; NULL: none */
    unsigned flags;                    /* TG_NEEDS_..., TG_...: plan may clear some */
    tg_fixes fixes_dy;
    int most_rows; /* approximate rows in a tile; 0: TG_TILE */
    tg_status (*plan)(tg_op_plan *plan, tg_error *err);
    /* For pointers, it only matters whether they are NULL; tile_rows, shapes and slate are set. `room`: the
       op's structure, zeroed. */
    void (*carve)(const tg_exec *e, int back, tg_carver *c, void *room);
    tg_phase forward[TG_MAX_PHASES], backward[TG_MAX_PHASES];
} tg_op;

/* Its phases, which a library that only scores (TG_SCORES_ONLY) goes without. */
#ifdef TG_SCORES_ONLY
#define TG_BACKWARD(...) {{0}}
#else
#define TG_BACKWARD(...) __VA_ARGS__
#endif

#define TG_DECLARE(name) extern const tg_op tg_op_##name;
TG_ALL_OPS(TG_DECLARE)
#undef TG_DECLARE

extern const tg_op *const tg_ops[]; /* NULL-terminated */
const tg_op *tg_find_op(const char *name);
int tg_op_most_in(const tg_op *op);
int tg_op_least_in(const tg_op *op);
/* What a row of a space is, in words. */
const char *tg_space_name(tg_space space);
/* "node or node and config" for a mask of spaces. */
void tg_space_names(unsigned spaces, char *text, size_t size);

enum { TG_MAX_NAME = 64 };
/* Write the attributes of `op` from a JSON object (NULL: none are given) to its structure (TG_ATTR_BYTES).
   Errors begin with `owner`. */
tg_status tg_op_attrs(const tg_op *op, const tg_json_value *object, const char *owner, void *attrs,
                      tg_error *err);

/* Check the inputs of plan, and let the op fill in the rest. The caller has set attrs, n_in, in, digit_cols,
   digit_rows and shared. */
tg_status tg_plan_op(const tg_op *op, tg_op_plan *plan, tg_error *err);

/* ---- shared by the op files (loop.c, op.c, sums.c) ---- */

/* Items of a space (nodes, edges, configs ...), and rows per item: the configs, or 1. */
int64_t tg_items(const tg_slate *s, tg_space space);
int tg_per_item(const tg_slate *s, tg_space space);
static inline int64_t tg_rows(const tg_slate *s, tg_space space) {
    return tg_items(s, space) * tg_per_item(s, space);
}
static inline int tg_has_nodes(tg_space space) {
    return space == TG_SPACE_NODE || space == TG_SPACE_NODE_CONFIG;
}
/* Edges, with configs if the nodes' rows have them. */
static inline tg_space tg_edge_space(tg_space nodes) {
    return nodes == TG_SPACE_NODE ? TG_SPACE_EDGE : TG_SPACE_EDGE_CONFIG;
}
/* Space of rows of nodes or configurable nodes after pooling: one per config, or one. */
static inline tg_space tg_pooled_space(tg_space rows) {
    return rows == TG_SPACE_NODE_CONFIG || rows == TG_SPACE_CONFIG_NODE_CONFIG ? TG_SPACE_CONFIG
                                                                               : TG_SPACE_SLATE;
}
/* Position of an item of the output, nodes or configurable nodes, in the configurable nodes, or -1. */
static inline int32_t tg_config_position(const tg_exec *e, int64_t item) {
    return tg_has_nodes(e->out.space) ? e->slate->config_of[item] : (int32_t)item;
}
/* (D) of one config at configurable node k. */
static inline const int8_t *tg_digits_at(const tg_slate *s, int32_t k, int config) {
    return s->digits + ((int64_t)config * s->K + k) * s->digit_cols;
}
/* Rows per item of input 0, of the output: the configs of a node, or 1. */
static inline int tg_per_in(const tg_exec *e) { return tg_per_item(e->slate, e->in[0].space); }
static inline int tg_per_out(const tg_exec *e) { return tg_per_item(e->slate, e->out.space); }

/* Items are cut into chunks that depend only on the problem; each chunk has its own partial sums. By config,
   each config has separate chunks. */
typedef struct tg_loop {
    int64_t items, chunks;
    int per;     /* rows per item that are worked on together */
    int configs; /* by config, else 1 */
} tg_loop;
tg_loop tg_loop_of(const tg_exec *e); /* of the phase that is running */

/* Set tile_rows for the call and nested calls, and place their memory from `base` (NULL: only count). Returns
   the floats used. */
int64_t tg_place_call(tg_exec *e, int back, float *base);

/* Run a placed call, and the calls it pulls from and pushes into. */
void tg_run(tg_exec *e, int back);

/* Random numbers of a dropout with probability p, off unless training; and the keys (rows,2) of the tile's
   rows from its row `at` on, which depend only on node and config. */
tg_dropout tg_dropout_of(const tg_exec *e, double p);
void tg_row_keys(const tg_exec *e, const tg_tile *t, int at, int rows, uint32_t *keys);

/* The tile's rows of input 0. */
const float *tg_pull(const tg_exec *e, const tg_tile *t);
/* tg_dx: where to write the tile's rows of the gradient of input 0, NULL if not wanted. tg_push: they are
   written. */
float *tg_dx(const tg_exec *e, const tg_tile *t);
void tg_push(const tg_exec *e, const tg_tile *t, const float *dx);
/* The tile's rows of the gradient of the output, the fix applied. */
const float *tg_dy(const tg_exec *e, const tg_tile *t, const float *dy);
/* dx[i](rows from `row` on, n floats in all) = [dx +] d, unless it is not wanted */
void tg_add_dx(const tg_exec *e, int i, int64_t row, int64_t n, const float *d);
/* Whether the gradient of input i is added. For a slot given twice, dx_add assumes that an op writes the
   gradients of its inputs from the last to the first; this is for ops that do not, and have written those in
   the mask `written`. */
int tg_adds_dx(const tg_exec *e, int i, unsigned written);

/* Number of threads of the call worth using for `work` operations in `parts` pieces. */
int tg_threads_for(const tg_exec *e, double work, int64_t parts);
/* fn(context, i) for i < n on the threads of the call, if `work` operations in all are worth it. */
typedef void tg_part_fn(const tg_exec *e, void *context, int64_t i);
void tg_parts(const tg_exec *e, int64_t n, double work, tg_part_fn *fn, void *context);

/* A sum over all tiles into dst(n) [+=]. The first chunk adds to dst itself, the others to `place`, carved as
   TG_PARTIAL. tg_share: where the tile adds its share, once per tile; tg_sum_shares: after the tiles. If dst
   is NULL, do not call tg_share. */
float *tg_share(const tg_exec *e, const tg_tile *t, float *place, int64_t n, float *dst, int add);
void tg_sum_shares(const tg_exec *e, const float *place, int64_t n, float *dst, int add);
/* The same for the gradient of parameter p; `place` has its size. NULL if not wanted. */
float *tg_share_dw(const tg_exec *e, const tg_tile *t, float *place, int p);
void tg_sum_dw(const tg_exec *e, const float *place, int p);
static inline int64_t tg_dw_floats(const tg_exec *e, int p) {
    return tg_param_floats(e->params[p].rows, e->params[p].cols);
}
/* dst(n) = [dst +] sum over the chunks of `place` */
void tg_sum_partials(const tg_exec *e, const float *place, int64_t n, float *dst, int add);

/* Pack w(n,k), or with `transposed` w(k,n), its columns on threads. */
void tg_pack(const tg_exec *e, int transposed, int n, int k, const float *w, int64_t ldw, float *b);

/* c(m,n) = [c +] a(m,k) B [+ bias], rows on threads */
void tg_gemm_rows(const tg_exec *e, int64_t m, int n, int k, const float *a, int64_t lda, const float *b,
                  float *c, int64_t ldc, const float *bias, int add);

/* ---- statistics over the rows of a phase (norm.c) ---- */

static inline tg_moments tg_moments_carve(tg_carver *c, int64_t n) {
    tg_moments m;
    m.shift = tg_carve(c, TG_PARTIAL, n);
    m.sum = tg_carve(c, TG_PARTIAL, n);
    m.squares = tg_carve(c, TG_PARTIAL, n);
    return m;
}
/* Adds the tile's x(rows,width), ldx apart, to the columns [from, from + width). The first item of a chunk
   must come first. */
void tg_moments_add(const tg_exec *e, const tg_tile *t, tg_moments m, int64_t from, int rows, int64_t width,
                    const float *x, int64_t ldx);
/* After the tiles: mean and squared deviations m2 of these columns, merged in the order of the chunks (Chan, Golub,
   LeVeque). Returns the number of rows. */
double tg_moments_merge(const tg_exec *e, tg_moments m, int64_t from, int64_t width, double *mean,
                        double *m2);
enum { TG_MOMENTS_BLOCK = 512 }; /* columns to be merged at a time */

/* ---- instance norm, fused into the ops before and after (norm.c) ---- */

/* Statistics of the output, per config and column over its nodes. */
void tg_stats_tile(const tg_exec *e, const tg_tile *t, const float *y);
void tg_stats_end(const tg_exec *e);
/* The statistics of x (N,C,cols), if no op produces x. */
void tg_stats_of(const tg_exec *e, const float *x, int cols, float *stats);

/* The tile's rows [at, at + rows) of input 0, given as x, normalised into y. */
void tg_normalize(const tg_exec *e, const tg_tile *t, int at, int rows, const float *x, float *y);

/* Gradient through the norm of input 0. Per chunk: sums over its nodes of d and of d * xh, where d is the
   gradient of the normalised value xh (2 n floats, n = C * cols of the input; the third n are room for the fix), in
   norm_sums.
   dx[0] = [dx +] d / std for the tile's rows [at, at + rows), and the sums. d, x: those rows. */
void tg_norm_tile(const tg_exec *e, const tg_tile *t, int at, int rows, const float *d, const float *x);
/* The rest of the gradient depends on the sums over all nodes. It is linear in x, so it can wait until dx is
   read: dx_fix. */
void tg_norm_end(const tg_exec *e);
/* g(N,C,cols) -= fix[0] + fix[1] * (x - fix[2]) */
void tg_apply_fix(const tg_exec *e, const float *fix, const float *x, int cols, float *g);

/* A parameter with PyTorch's default uniform(-1/sqrt(fan_in), +). */
tg_param_spec tg_weight(int rows, int cols, int fan_in);

/* The same with Glorot's bound sqrt(6 / (rows + cols)), PyG's default for attention. */
tg_param_spec tg_glorot(int rows, int cols);

/* Weight (O,F) and bias (O) as parameters `at` and `at` + 1. Default: PyTorch's initialisation.
   Xavier-normal: with bias 0.01 (first place). LeCun: uniform, with variance 1/F. Glorot: Xavier-uniform,
   with the default bias. */
#define TG_LINEAR_INITS     "default|xavier|lecun|glorot"
#define TG_LINEAR_INITS_DOC "initial weights: PyTorch's, Xavier-normal, LeCun-uniform, Xavier-uniform"
enum { TG_LINEAR_DEFAULT, TG_LINEAR_XAVIER, TG_LINEAR_LECUN, TG_LINEAR_GLOROT };
void tg_add_linear(tg_op_plan *plan, int at, int O, int F, int init);
/* Number of columns of the parameter shared under this name, or `otherwise`. */
int tg_shared_cols(const tg_op_plan *plan, const char *name, int otherwise);

#endif
