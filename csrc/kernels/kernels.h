/* The innermost loops: serial, allocation-free, cannot fail. Every kernel exists once per vector width
   (isa_*.c include all.inc); levels that only multiply otherwise have those kernels alone, and select.c adds the others
   and picks a table at run time.
   Threads, memory and shapes are the business of ops/. */
#ifndef TG_KERNELS_H
#define TG_KERNELS_H

#include <stdint.h>

/* The one list of activations, after "none". Leaky ReLU has the slope 0.01, ELU the scale 1 (PyTorch's defaults). PReLU
   is x where x > 0, else slope * x with a slope per column: the kernels `bend`, not `act`. */
#define TG_ACT_PLAIN_LIST(A)                                                                                 \
    A(RELU, "relu")                                                                                          \
    A(GELU, "gelu") A(LEAKY, "leaky") A(ELU, "elu") A(SILU, "silu") A(SIGMOID, "sigmoid") A(TANH, "tanh")
#define TG_ACT_LIST(A)          TG_ACT_PLAIN_LIST(A) A(PRELU, "prelu")
#define TG_ACT_ENUM(name, text) TG_ACT_##name,
enum { TG_ACT_NONE, TG_ACT_LIST(TG_ACT_ENUM) TG_ACTS };
#undef TG_ACT_ENUM
#define TG_ACT_TEXT(name, text) "|" text
#define TG_ACT_NAMES            "none" TG_ACT_LIST(TG_ACT_TEXT)
#define TG_NEAR                 600.0 /* e^-TG_NEAR is a normal double */

/* What the operands of a matrix product are rounded to; sums are float32 (int32 within a slice of int8), and
   so is everything else. Each precision is a table of its own, which differs from the others of its
   instruction set in the products only: arrays stay float32 and are converted inside.
   TG_BF16  nearest even; NaN and infinities stay what they are
   TG_INT8  for scoring: weights by column and rows of `a` by slice of 1024, both scaled to -127..127 by their
            largest absolute value (below 1e-30 counts as 0; a NaN or infinity makes the row or column NaN).
            Products are exact integers. gemm_tn, which only training needs, is that of TG_F32. */
typedef enum tg_precision { TG_F32, TG_BF16, TG_INT8, TG_PRECISIONS } tg_precision;

enum { TG_MOST_TOKENS = 64 }; /* that attend to each other */
enum { TG_FAR = 8 << 20 };    /* floats, 32 MB: no cache keeps what was written of an array of as many */

/* Inverted dropout by counter: element (row, f) is dropped when hash(key of the row, f) < threshold. */
typedef struct tg_dropout {
    uint32_t threshold; /* p * 2^31, 0 = off */
    float scale;        /* 1 / (1 - p) */
} tg_dropout;

typedef struct tg_kernels tg_kernels;

/* Rows of the `mix` op: C configs of one node, or where configs do not matter (`alone`, no cross) any C rows.
   F = 2D with cross, else D. Weights come packed (pack_nt /
   pack_nn). V: floats of a vector. */
typedef struct tg_mix_tile {
    const tg_kernels *k; /* whose products are used */
    int C, D, R, act;
    int gate, cross;
    int alone; /* every row is the only config of its node: its softmax is 1 */
    float inv_tau;
    const float *slope; /* (F) of PReLU, else NULL */
    tg_dropout dropout;
    uint32_t *keys;                 /* (C,2) dropout row keys */
    const float *z, *x;             /* (C,D) the input, and what it is after the norm */
    const float *residual;          /* (C,F) or NULL */
    const float *w1, *b1, *w2, *b2; /* packed (D->R), (R), packed (R->D), (D) */
    float *strips;                  /* scratch (3,C,V), backward (4,C,V) */
    float *u, *h;                   /* scratch (C,D), (C,R) */
    float *h_rows, *h_columns;      /* scratch (C,R), backward also (C+1,R) */
    float *out;                     /* (C,F), forward */
    int out_follows, dout_follows;  /* the next node's out, dout lie behind this one's */
    const float *w1t, *w2t;         /* backward: packed (R->D), (D->R) */
    const float *dout;              /* (C,F) */
    const float *fix;               /* a(C,F), b, c `fix_stride` apart or NULL: the gradient is
                                       dout - a - b * (out - c); rows of a are `fix_row` apart */
    int64_t fix_stride, fix_row;
    float *dresidual; /* (C,F) or NULL; may be dout itself */
    int dresidual_add;
    float *da, *dh; /* scratch (C,D), (C,R) */
    /* += (R,D), (R), (R,D), (D), (1), (F): dw2 is transposed; NULL: not wanted */
    float *dw1, *db1, *dw2, *db2, *dtau, *dslope;
} tg_mix_tile;

/* Scores of an edge per head: GATv2's att . leaky(far + own); scale * key . own; leaky(key + own), of one column. */
typedef enum { TG_SCORE_GATV2, TG_SCORE_DOT, TG_SCORE_ADD } tg_score;

/* The edges of one node under attention, for `rows` of its configs: H heads of O columns. What is by edge is (rows,H) at
   edge * edge_stride, what is by node, at the other ends of the edges, lies at node * its stride. */
typedef struct tg_attend {
    int rows, heads, cols;
    tg_score score;
    int mean;                   /* heads are averaged, so that rows of y and dy have O columns, else H * O */
    float slope, scale;         /* of the leaky ReLU below 0, in 0..1; of products */
    int count, known;           /* edges of the node; with those behind them, which are other nodes' */
    const int32_t *node, *edge; /* (known) */
    int64_t far_stride, key_stride, dy_stride, edge_stride;
    const float *att, *bias; /* (H,O), (columns of y) or NULL: 0 */
    const float *far;        /* by node (rows,H,O): what is added up with the weights */
    const float *own;        /* of the node itself: (rows,H,key_cols), of GATv2 (rows,H,O) */
    const float *key;        /* by node (rows,H,key_cols); GATv2: none */
    int key_cols;
    float *weight, *dscore; /* by edge: softmax of the scores; the gradient of score, product or sum */
    const float *dy;        /* attend_receiver: of the node itself; attend_sender: by node */
    float *near;            /* scratch (count, floats of a vector) */
    float *y, *down, *datt; /* results: datt(H,O) is added to unless it is NULL */
    int add;                /* to `down`, but of GATv2 */
} tg_attend;

/* The edges of one node, and n floats of the nodes at their other ends: those of node v at base + v * stride. */
typedef struct tg_edges {
    int count, known;           /* edges of the node; with those behind them, which are other nodes' */
    int E, n;                   /* edges are numbered twice: number e + E is e taken against its direction */
    const int32_t *node, *edge; /* (known) */
    const float *by_edge, *by_node; /* (E), by node: factors of a row, or NULL */
    float scale;                    /* of all rows */
    const float *base;
    int64_t stride;
    const float *more[2]; /* (n) or NULL: edge_sum adds these with their own factors */
    float more_factor[2];
} tg_edges;

/* name, return type, arguments. Contracts:
   panel       floats of `nr` packed columns of depth k
   gemm        c(m,n) = a(m,k) B [+ bias(n)], or c += with add; k may be 0. B is packed by the same table and
               has tg_packed() floats. May read ahead of a: rows past the last are prefetched, never used
   pack_nt     B from w(n,k): B[k][n] = w[n][k];   pack_nn  B from w(k,n)
   gemm_tn     c(m,n) += a(rows,m)^T b(rows,n)
   add_rows    sum(n) += sum over rows of x(rows,n)
   turn        to(n,m) = [to +] from(m,n)^T
   mean_of     y(n) = sum over `count` neighbours of base[index*stride ..] * (weight[index] or 1/count), then
               (y - mean) * rstd unless mean is NULL; 0 without neighbours
   normalize   y = (x - mean) * rstd; y may be x
   stats_add   s(n) += x - shift, q(n) += (x - shift)^2 for every row of x(rows,n)
   merge_stats one step of Chan, Golub and LeVeque: into mean(n) and m2(n), squared deviations, of `count` rows those
               of `here` more rows, given as shift(n), s(n), q(n) of stats_add
   norm_back   first pass of the gradient of x under instance norm; d = gradient of the normalised value xh:
               g = [g +] d * rstd, s1 += d, s2 += d * xh
   fix         y = g - a - b * (x - c); a(n), b(n), c(n) are `stride` apart in coef; y may be g
   act         y(n) = act(x), one of TG_ACT_PLAIN_LIST;   act_grad  d(n) = g * act'(x); d may be g
   blend_by    y(n) = s * x + (1 - s) * z with s = sigmoid(a); z NULL: 0
   blend_by_back   da(n), dx(n), dz(n) of that from g(n); dz only if there is a z
   add_arrays  y(n) = sum of `count` arrays x[i](n); y may be one of them
   clear       y(n) = 0, past the caches: for arrays of TG_FAR floats and more, of which they would keep nothing
   copy_rows   y(rows,n) = [y +] x(rows,n), rows ldx, ldy apart; ldx 0: the same row again and again
   layer_norm  y(rows,n) = (x - mean) / sqrt(var + eps) * w + b of every row; w and b may both be NULL: 1 and 0
   layer_norm_back   dx = [dx +] its gradient, dw(n) +=, db(n) +=; each may be NULL
   unit_rows   y(rows,n) = x / max(|x|, eps) of every row;   unit_rows_back  dx = [dx +] its gradient
   map_columns y(rows,n) = [y +] (x - c) * a + b; a(n), b(n), c(n) are the same for all rows, b and c may be NULL
   sum_columns s1(n) += sum of g(rows,n), s2(n) += sum of g * (x - c) * a; c and s1 may be NULL
   mix_columns y(rows,n) = [y +] a * g - b * (x - c) - d
   bend        y(rows,n) = x where x > 0, else f * x, with `curved` f * (e^x - 1); f(n); y may be x
   bend_back   d = [d +] its gradient, df(n) +=; either may be NULL; d may be g
   drop_rows   y(rows,n) = [y +] x times the factors of a dropout whose rows have these keys(rows,2)
   add_normals y(n) = x + std times the normal numbers of a key; y may be x
   elu_one     y(rows,n) = elu(x) + 1 of rows ldx apart; sum(n) += its sum over the rows, unless NULL
   elu_one_back   dx = [dx +] (g + s z^T) * elu'(x), from phi = elu(x) + 1; s(rows) NULL: 1, z(n) NULL: 0
   row_dots    dots(rows) = products of rows a(n) and b(n), lda and ldb apart, either may be 0
   scale_rows  y(rows,n) = x * s(rows); y may be x
   weigh_rows  sum(n) += s(rows)^T x(rows,n)
   lookup      z(C,O) = base(O) + sum over P digits of table[p][digit + 2]; digits of config c at c*stride
   lookup_grad dtable[p][digit + 2] += dz(C,O)
   digit_table table(P,V,O): [p][v] = sum over d of wt[p*D + d] * emb[v][d]; wt(P*D,O), emb(V,D)
   digit_table_grad   dwt(P*D,O) = and demb(V,D) += from dtable(P,V,O)
   mix_forward, mix_backward   see tg_mix_tile; backward returns the gradient of the (normalised) z (C,D), in
               scratch
   attend      y(T,heads*d) = softmax(q k^T / sqrt(d)) v per head, of qkv(T,3*heads*d), T <= TG_MOST_TOKENS; the softmax
               is left in p(heads,T,T), and dropped at its position there, under the row's key, before it meets v
   attend_grad dqkv(T,3*heads*d) of all that; p as attend has left it
   soften      scores s(rows,n) into e^(scale * s - top): top(rows) rises to the largest scale * s of its row so far,
               fade(rows) = e^(old top - top), sum(rows) = fade * sum + that of the row
   soften_back s(rows,n) into the weights p = e^(scale * s - lse), their gradient d(rows,n) into that of s:
               p * (d - along) * scale; lse(rows), along(rows) are ld apart
   mean_tokens y(rows,W) = scale * the sum over the T tokens of x(rows,T,W)
   lay_tokens  x(rows,T,W) = [x +] scale * y(rows,W) for every token
   attend_forward   weight and y of a node's incoming edges; one edge: its score is not needed, nor `own`
   attend_receiver  dscore of a node's incoming edges, the gradient of own, and datt
   attend_sender    GATv2: gradient of own for a node's outgoing edges; with a dscore of 0, far may be anything
   attend_collect   the others, over a node's outgoing edges: down(rows,H,O) = [down +] the sum of weight * far, where far
               is laid out as dy; far NULL: down(rows,H) = [down +] the sum of weight
   head_dots   y(rows,H) = x(rows,H,O) . att(H,O) per head
   head_dots_back   dx(rows,H,O) = [dx +], datt(H,O) +=; either may be NULL
   edge_sum    y(n) = [y +] the sum over a node's edges of factor * row + that of `more`
   edge_dots   dots(count) = row . g(n) of a node's edges, without factors
   adamw       one pass over flat arrays; scale multiplies the gradient (clipping), take = 1 - beta
   sum_squares double sum of x^2
   list_mle    ListMLE, scores(n) whose order is numbers(n): *loss, and `scale` times its gradient in dscores(n);
               work(2n+14). 0, and nothing is written, if some scores are further apart than TG_NEAR
   logistic_row   scale * sum over n of |c| log(1 + e^-x), x = sign(c) (a - pivot); its gradient is added to g(n) and
               to *dpivot
   base7_encode   codes(n) from digits(n,6); base7_decode the inverse; 0 if some digit (code) is none
   pack_digits    to(n) from the float32 at `from`, of any alignment; 0 if some value is not a digit */
#define TG_PRODUCT_LIST(K)                                                                                   \
    K(panel, int64_t, (int k))                                                                               \
    K(gemm, void,                                                                                            \
      (int m, int n, int k, const float *a, int64_t lda, const float *b, float *c, int64_t ldc,              \
       const float *bias, int add))                                                                          \
    K(pack_nt, void, (int n, int k, const float *w, int64_t ldw, float *b))                                  \
    K(pack_nn, void, (int n, int k, const float *w, int64_t ldw, float *b))                                  \
    K(gemm_tn, void,                                                                                         \
      (int rows, int m, int n, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,           \
       int64_t ldc))
#define TG_KERNEL_LIST(K)                                                                                    \
    K(add_rows, void, (int rows, int64_t n, const float *x, int64_t ldx, float *sum))                        \
    K(turn, void, (int m, int n, const float *from, int64_t ldf, float *to, int64_t ldt, int add))           \
    K(mean_of, void,                                                                                         \
      (int count, const int32_t *index, const float *weight, const float *base, int64_t stride, int64_t n,   \
       const float *mean, const float *rstd, float *y))                                                      \
    K(normalize, void, (int64_t n, const float *x, const float *mean, const float *rstd, float *y))          \
    K(stats_add, void,                                                                                       \
      (int rows, int64_t n, const float *x, int64_t ldx, const float *shift, float *s, float *q))            \
    K(merge_stats, void,                                                                                     \
      (int64_t n, double here, double count, const float *shift, const float *s, const float *q,             \
       double *mean, double *m2))                                                                            \
    K(norm_back, void,                                                                                       \
      (int64_t n, const float *d, const float *x, const float *mean, const float *rstd, float *s1,           \
       float *s2, float *g, int add))                                                                        \
    K(fix, void, (int64_t n, const float *g, const float *x, const float *coef, int64_t stride, float *y))   \
    K(act, void, (int64_t n, int kind, const float *x, float *y))                                            \
    K(act_grad, void, (int64_t n, int kind, const float *g, const float *x, float *d))                       \
    K(blend_by, void, (int64_t n, const float *a, const float *x, const float *z, float *y))                 \
    K(blend_by_back, void,                                                                                   \
      (int64_t n, const float *g, const float *a, const float *x, const float *z, float *da, float *dx,      \
       float *dz))                                                                                           \
    K(add_arrays, void, (int64_t n, int count, const float *const *x, float *y))                             \
    K(clear, void, (int64_t n, float *y))                                                                    \
    K(copy_rows, void, (int rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy, int add))   \
    K(layer_norm, void,                                                                                      \
      (int rows, int n, const float *x, const float *w, const float *b, float eps, float *y))                \
    K(layer_norm_back, void,                                                                                 \
      (int rows, int n, const float *g, const float *x, const float *w, float eps, float *dx, int add,       \
       float *dw, float *db))                                                                                \
    K(unit_rows, void, (int rows, int n, const float *x, float eps, float *y))                               \
    K(unit_rows_back, void,                                                                                  \
      (int rows, int n, const float *g, const float *x, float eps, float *dx, int add))                      \
    K(map_columns, void,                                                                                     \
      (int rows, int64_t n, const float *x, const float *c, const float *a, const float *b, float *y,        \
       int add))                                                                                             \
    K(sum_columns, void,                                                                                     \
      (int rows, int64_t n, const float *g, const float *x, const float *c, const float *a, float *s1,       \
       float *s2))                                                                                           \
    K(mix_columns, void,                                                                                     \
      (int rows, int64_t n, const float *g, const float *x, const float *a, const float *b, const float *c,  \
       const float *d, float *y, int add))                                                                   \
    K(bend, void, (int rows, int64_t n, int curved, const float *x, const float *f, float *y))               \
    K(bend_back, void,                                                                                       \
      (int rows, int64_t n, int curved, const float *g, const float *x, const float *f, float *d, int add,   \
       float *df))                                                                                           \
    K(drop_rows, void,                                                                                       \
      (int rows, int n, const float *x, const tg_dropout *dropout, const uint32_t *keys, float *y, int add)) \
    K(add_normals, void, (int n, uint64_t key, float std, const float *x, float *y))                         \
    K(elu_one, void, (int rows, int n, const float *x, int64_t ldx, float *y, float *sum))                   \
    K(elu_one_back, void,                                                                                    \
      (int rows, int n, const float *g, int64_t ldg, const float *phi, int64_t ldp, const float *s,          \
       const float *z, float *dx, int64_t ldx, int add))                                                     \
    K(row_dots, void,                                                                                        \
      (int rows, int n, const float *a, int64_t lda, const float *b, int64_t ldb, float *dots))              \
    K(scale_rows, void,                                                                                      \
      (int rows, int n, const float *x, int64_t ldx, const float *s, float *y, int64_t ldy))                 \
    K(weigh_rows, void, (int rows, int n, const float *x, int64_t ldx, const float *s, float *sum))          \
    K(lookup, void,                                                                                          \
      (int P, int V, int C, int O, const float *base, const float *table, const int8_t *digits,              \
       int64_t stride, float *z))                                                                            \
    K(lookup_grad, void,                                                                                     \
      (int P, int V, int C, int O, const float *dz, const int8_t *digits, int64_t stride, float *dtable))    \
    K(digit_table, void, (int P, int V, int O, int D, const float *wt, const float *emb, float *table))      \
    K(digit_table_grad, void,                                                                                \
      (int P, int V, int O, int D, const float *dtable, const float *wt, const float *emb, float *dwt,       \
       float *demb))                                                                                         \
    K(mix_forward, void, (const tg_mix_tile *tile))                                                          \
    K(mix_backward, const float *, (const tg_mix_tile *tile))                                                \
    K(attend, void,                                                                                          \
      (int T, int heads, int d, const float *qkv, const tg_dropout *dropout, const uint32_t *key, float *p,  \
       float *y))                                                                                            \
    K(attend_grad, void,                                                                                     \
      (int T, int heads, int d, const float *qkv, const tg_dropout *dropout, const uint32_t *key,            \
       const float *p, const float *dy, float *dqkv))                                                        \
    K(soften, void,                                                                                          \
      (int rows, int n, float scale, float *s, int64_t lds, float *top, float *sum, float *fade))            \
    K(soften_back, void,                                                                                     \
      (int rows, int n, float scale, const float *lse, const float *along, int64_t ld, float *s, float *d))  \
    K(mean_tokens, void, (int rows, int T, int64_t W, const float *x, float scale, float *y))                \
    K(lay_tokens, void, (int rows, int T, int64_t W, const float *y, float scale, float *x, int add))        \
    K(attend_forward, void, (const tg_attend *node))                                                         \
    K(attend_receiver, void, (const tg_attend *node))                                                        \
    K(attend_sender, void, (const tg_attend *node))                                                          \
    K(attend_collect, void, (const tg_attend *node))                                                         \
    K(head_dots, void, (int rows, int heads, int cols, const float *x, const float *att, float *y))          \
    K(head_dots_back, void,                                                                                  \
      (int rows, int heads, int cols, const float *dy, const float *x, const float *att, float *dx, int add, \
       float *datt))                                                                                         \
    K(edge_sum, void, (const tg_edges *node, float *y, int add))                                             \
    K(edge_dots, void, (const tg_edges *node, const float *g, float *dots))                                  \
    K(adamw, void,                                                                                           \
      (int64_t n, float *w, const float *g, float *m1, float *m2, float scale, float lr, float take1,        \
       float take2, float eps, float decay, float fix1, float fix2))                                         \
    K(sum_squares, double, (int64_t n, const float *x))                                                      \
    K(list_mle, int,                                                                                         \
      (int64_t n, const uint32_t *numbers, const float *scores, double scale, float *dscores, double *work,  \
       double *loss))                                                                                        \
    K(logistic_row, double,                                                                                  \
      (int64_t n, double pivot, const double *a, const double *c, double scale, double *g, double *dpivot))  \
    K(base7_encode, int, (int64_t n, const int8_t *digits, int32_t *codes))                                  \
    K(base7_decode, int, (int64_t n, const int32_t *codes, int8_t *digits))                                  \
    K(pack_digits, int, (int64_t n, const void *from, int8_t *to))

struct tg_kernels {
    const char *name;
    int vector; /* floats per vector */
    int nr;     /* columns of a packed panel */
    tg_precision precision;
#define TG_MEMBER(name, ret, args) ret(*name) args;
    TG_PRODUCT_LIST(TG_MEMBER)
    TG_KERNEL_LIST(TG_MEMBER)
#undef TG_MEMBER
};

/* Floats of a packed matrix with n columns and depth k. */
static inline int64_t tg_packed(const tg_kernels *kernels, int n, int k) {
    return (n + kernels->nr - 1) / kernels->nr * kernels->panel(k);
}

/* The table of a precision for the instruction set in use; tg_kernel_table() is that of TG_F32. */
const tg_kernels *tg_kernel_table_for(tg_precision precision);
const tg_kernels *tg_kernel_table(void);
/* The tg_precision called "f32", "bf16" or "int8", or -1. */
int tg_find_precision(const char *name);
/* Features that decide the levels of a processor, as the compiler names them. */
#define TG_CPU_LIST(F)                                                                                       \
    F(avx2) F(fma) F(bmi2) F(avx512f) F(avx512vl) F(avx512bw) F(avx512dq) F(avx512vnni) F(avx512bf16)
typedef struct tg_cpu {
    int amd;
#define TG_MEMBER(feature) int feature;
    TG_CPU_LIST(TG_MEMBER)
#undef TG_MEMBER
} tg_cpu;

/* Names of the levels that such a processor can run, fastest first, NULL-terminated. A rule, not a timing, so that
   one processor always gives the same bits: AVX-512's bf16 product comes first on AMD (Zen 4 and later start as
   many a cycle as float32's products, with twice the numbers) and behind avx512_vnni everywhere else. Sapphire Rapids starts
   half as many, so rounding to bf16 and multiplying as float32 is faster there: the same rounding, other orders of the
   sums. Intel's others, and other makes, are taken to be like it; they have not been measured. */
enum { TG_MOST_LEVELS = 8 };
void tg_isa_levels_of(const tg_cpu *cpu, const char *level_names[TG_MOST_LEVELS + 1]);
/* The same of this processor. */
const char *const *tg_isa_levels(void);
/* 1 if `name` is one of them and now in use. */
int tg_set_isa(const char *name);
/* Use the level that TPUGRAPHS_ISA names, by default the fastest; 0 if this machine has none of that name. */
int tg_isa_from_environment(void);

#endif
