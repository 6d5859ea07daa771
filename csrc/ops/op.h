/* What an op is: a forward and a backward over one slate, with everything they touch handed to them in a
   tg_exec. Ops own threads and loops over nodes; kernels own the arithmetic; the plan (model/) owns memory.
 */
#ifndef TG_OP_H
#define TG_OP_H

#include <stdint.h>

#include "base/status.h"
#include "graph/csr.h"
#include "kernels/kernels.h"

enum {
    TG_MAX_IN = 2,
    TG_MAX_PARAMS = 5,
    TG_MAX_ATTRS = 7,
    TG_DIGITS = 18,
    TG_DIGIT_ROWS = 8,
    TG_MAX_CHUNKS = 32
};
enum { TG_FORWARD, TG_REVERSE, TG_BOTH, TG_DIRECTIONS };

/* What a row of a slot is. */
typedef enum { TG_SPACE_NODE, TG_SPACE_NODE_CONFIG, TG_SPACE_CONFIG } tg_space;
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
    unsigned needs_in; /* bit i: backward reads input i */
    int needs_stats;   /* forward and backward read the norm statistics of input 0 */
    int makes_stats;   /* forward writes the norm statistics of its output */
    int inplace_in;    /* the gradient of this input may be written over dy; -1: none */
    int recompute;     /* forward is cheap: recompute the output for backward instead of keeping it */
} tg_op_plan;

/* One call of an op. Arrays of a node x config slot are (N, C, cols), node-major. */
typedef struct tg_exec {
    const tg_kernels *k;
    const tg_slate *slate;
    const double *attr;
    tg_shape in[TG_MAX_IN], out;
    const float *x[TG_MAX_IN]; /* NULL: input not given */
    const float *x_stats;      /* (2, C, cols of in[0]): mean, 1/std over nodes */
    float *y, *y_stats;        /* y_stats NULL: not wanted */
    float *dy;
    float *dx[TG_MAX_IN]; /* NULL: not wanted */
    int dx_add[TG_MAX_IN];
    const float *w[TG_MAX_PARAMS];
    float *dw[TG_MAX_PARAMS];
    int dw_add[TG_MAX_PARAMS];
    int table_cols;
    float *ddigits; /* (C,K,18,8) or NULL: gradient per digit value (config_linear) */
    int training;
    uint64_t key;   /* dropout: from seed, step and op number */
    float *shared;  /* workspace of this call */
    float *scratch; /* thread t owns scratch + t * scratch_stride */
    int64_t scratch_stride;
    int threads; /* scratch exists for so many */
} tg_exec;

typedef struct tg_op {
    const char *name;
    int min_in, max_in;
    int wants_table; /* index of the parameter that must be shared with an embedding, or -1 */
    tg_attr_spec attrs[TG_MAX_ATTRS];
    tg_status (*plan)(tg_op_plan *plan, tg_error *err);
    /* floats of shared workspace and of scratch per thread (shapes and slate sizes of `e` are set) */
    void (*workspace)(const tg_exec *e, int backward, int64_t *shared, int64_t *scratch);
    void (*forward)(const tg_exec *e);
    void (*backward)(const tg_exec *e);
} tg_op;

/* The op table: one line per op, one file per op. */
#define TG_OP_LIST(OP) OP(embedding) OP(config_linear) OP(linear) OP(sage) OP(instance_norm) OP(mix) OP(pool)
#define TG_DECLARE(name) extern const tg_op tg_op_##name;
TG_OP_LIST(TG_DECLARE)
#undef TG_DECLARE

extern const tg_op *const tg_ops[]; /* NULL-terminated */
const tg_op *tg_find_op(const char *name);

/* ---- shared by the op files (op.c) ---- */

/* Rows per item of a slot: an item is a node (N, N*C) or a config row. */
static inline int64_t tg_items(const tg_slate *s, tg_space space) {
    return space == TG_SPACE_CONFIG ? s->C : s->N;
}
static inline int tg_per_item(const tg_slate *s, tg_space space) {
    return space == TG_SPACE_NODE_CONFIG ? s->C : 1;
}
static inline int64_t tg_rows(const tg_slate *s, tg_space space) {
    return tg_items(s, space) * tg_per_item(s, space);
}

/* Items are cut into chunks fixed by the problem; each chunk has its own partial sums. */
typedef struct tg_loop {
    int64_t items, chunks;
    int per; /* rows per item */
} tg_loop;
tg_loop tg_loop_over(const tg_slate *slate, tg_space space);

/* fn(e, context, chunk, first item, end item, this thread's scratch) for every chunk, on threads if the work
   (floating-point operations in all) is worth it. */
typedef void tg_chunk_fn(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                         float *scratch);
void tg_run_chunks(const tg_exec *e, tg_loop loop, double flops, tg_chunk_fn *fn, void *context);

/* dst(n) = [dst +] partial(0,n) + partial(1,n) + ..., partials `stride` floats apart */
void tg_sum_partials(int64_t chunks, int64_t n, const float *partials, int64_t stride, float *dst, int add);

/* Norm statistics: every chunk holds shift, sum, sum of squares (3 * n floats, n = C * cols) of its nodes. */
static inline int64_t tg_stats_floats(int64_t n) { return 3 * n; }
void tg_stats_tile(const tg_kernels *k, float *partial, int64_t n, const float *tile, int first);
void tg_stats_finish(tg_loop loop, int64_t n, const float *partials, float *stats);
/* The statistics of x (N,C,cols), for callers without a producer. partials: loop.chunks * 3 * n floats. */
void tg_stats_of(const tg_exec *e, const float *x, int64_t n, float *partials, float *stats);

/* Second pass of the gradient of input 0 under instance norm: e->dx[0] holds rstd * d, sums (2, C, cols) the sums
   over nodes of d and d * xh that norm_back accumulated. */
void tg_norm_finish(const tg_exec *e, const float *sums);

/* Fill a parameter spec; `fan_in` > 0: PyTorch's default uniform(-1/sqrt(fan_in), +). */
tg_param_spec tg_weight(const char *name, int rows, int cols, int fan_in);

/* Weight (O,F) and bias (O) as the next two parameters; xavier: Xavier-normal weight, bias 0.01 (first
 * place). */
void tg_add_linear(tg_op_plan *plan, const char *weight, const char *bias, int O, int F, int xavier);

#endif
