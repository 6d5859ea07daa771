/* A transformer encoder layer (Vaswani et al. 2017) as torch.nn.TransformerEncoderLayer has it, for rows x(rows, T W),
   each T tokens of W columns that attend to each other:
   post-norm: u = norm1(x + attend(x)), y = norm2(u + feed(u));
   pre-norm:  r = x + attend(norm1(x)), y = r + feed(norm2(r)).
   attend(a) = out(softmax(q k^T / sqrt(W / heads)) v) with q, k, v = in(a); feed(u) = linear2(act(linear1(u))). In training,
   dropout follows the softmax, the activation and both branches, as there.

   Only x is kept for backward. Rows are taken in blocks of about BLOCK tokens, and forward is made again block by
   block: its arrays stay in cache instead of going through memory. */
#include "ops/act.h"

#include <math.h>

#include "base/rng.h"

enum { IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS, WEIGHT1, BIAS1, WEIGHT2, BIAS2, NORMS };
enum { NORM1_WEIGHT = NORMS, NORM1_BIAS, NORM2_WEIGHT, NORM2_BIAS, PARAMS, SLOPE = PARAMS };
/* The matrix products: number i has the parameters 2 i and 2 i + 1. */
enum { IN, OUT, FIRST, SECOND, PRODUCTS };
enum { POST, PRE };
enum { BLOCK = 96 }; /* tokens */
static const float EPS = 1e-5f;

typedef struct attrs {
    int tokens, heads, hidden, act, per_column, norm, init;
    double dropout;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    const attrs *a = p->attrs;
    if (p->in[0].cols % a->tokens != 0)
        return tg_fail(err, TG_E_RECIPE, "%d column%s cannot be cut into %d tokens", p->in[0].cols,
                       TG_S(p->in[0].cols), a->tokens);
    const int W = p->in[0].cols / a->tokens, H = a->hidden;
    if (W % a->heads != 0)
        return tg_fail(err, TG_E_RECIPE, "the %d column%s of a token cannot be cut into %d heads", W, TG_S(W),
                       a->heads);
    p->out = p->in[0];
    const tg_param_spec zeros = {.rows = W, .init = TG_INIT_CONSTANT},
                        ones = {NULL, W, 0, TG_INIT_CONSTANT, 1.0f};
    p->params[IN_WEIGHT] =
        (tg_param_spec){NULL, 3 * W, W, TG_INIT_UNIFORM, (float)sqrt(1.5 / W)}; /* Xavier */
    p->params[IN_BIAS] = zeros;
    p->params[IN_BIAS].rows = 3 * W;
    tg_add_linear(p, OUT_WEIGHT, W, W, a->init);
    p->params[OUT_BIAS] = zeros;
    tg_add_linear(p, WEIGHT1, H, W, a->init);
    tg_add_linear(p, WEIGHT2, W, H, a->init);
    p->params[NORM1_WEIGHT] = p->params[NORM2_WEIGHT] = ones;
    p->params[NORM1_BIAS] = p->params[NORM2_BIAS] = zeros;
    p->params[SLOPE] = tg_act_slope(H, a->per_column);
    p->needs_in = 1;
    if (a->dropout == 0) p->flags &= ~(unsigned)TG_RANDOM;
    return TG_OK;
}

/* Where everything is. Arrays of a thread are those of one block of M tokens. */
typedef struct room {
    int T, W, H, block; /* rows of a block */
    tg_act act;
    float *packed[PRODUCTS], *turned[PRODUCTS];
    float *qkv, *p, *context; /* (M,3W), (rows,heads,T,T), (M,W) */
    float *a, *r, *u, *s;     /* (M,W): what attends, plus its branch, what is fed, plus its branch */
    float *z, *h;             /* (M,H): before and after the activation */
    uint32_t *keys;           /* of dropout, (SITES,rows,2) */
    float *shares;            /* backward, of a chunk: gradients of all parameters */
    float *g, *d, *wide, *dh; /* backward: (M,W), (M,W), (M,3W), (M,H) */
} room;
_Static_assert(sizeof(room) <= TG_ROOM_BYTES, "room");
enum { ATTENTION, BRANCH1, HIDDEN, BRANCH2, SITES }; /* of dropout */

static void carve_back(const tg_exec *e, tg_carver *c, room *r, int64_t M) {
    int64_t all = 0;
    for (int p = 0; p < PARAMS; p++) all += tg_dw_floats(e, p);
    for (int i = 0; i < PRODUCTS; i++)
        r->turned[i] = tg_carve(c, TG_SHARED, tg_packed(e->k, e->params[2 * i].cols, e->params[2 * i].rows));
    r->shares = tg_carve(c, TG_PARTIAL, all);
    r->g = tg_carve(c, TG_SCRATCH, M * r->W);
    r->d = tg_carve(c, TG_SCRATCH, M * r->W);
    r->wide = tg_carve(c, TG_SCRATCH, M * 3 * r->W);
    r->dh = tg_carve(c, TG_SCRATCH, M * r->H);
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    *r = (room){.T = a->tokens, .W = e->in[0].cols / a->tokens, .H = a->hidden};
    r->block = r->T < BLOCK ? BLOCK / r->T : 1;
    if (r->block > e->tile_rows) r->block = e->tile_rows;
    const int64_t M = (int64_t)r->block * r->T, W = r->W, H = r->H;
    c->work +=
        (back ? 6.0 : 2.0) * (double)tg_rows(e->slate, e->out.space) * r->T * (double)(4 * W * W + 2 * W * H);
    tg_act_carve(e, back, c, a->act, SLOPE, r->H, &r->act);
    for (int i = 0; i < PRODUCTS; i++)
        r->packed[i] = tg_carve(c, TG_SHARED, tg_packed(e->k, e->params[2 * i].rows, e->params[2 * i].cols));
    r->qkv = tg_carve(c, TG_SCRATCH, M * 3 * W);
    r->p = tg_carve(c, TG_SCRATCH, M * a->heads * r->T);
    r->context = tg_carve(c, TG_SCRATCH, M * W);
    r->a = a->norm == PRE ? tg_carve(c, TG_SCRATCH, M * W) : NULL;
    r->r = tg_carve(c, TG_SCRATCH, M * W);
    r->u = tg_carve(c, TG_SCRATCH, M * W);
    r->s = tg_carve(c, TG_SCRATCH, M * W);
    r->z = tg_carve(c, TG_SCRATCH, M * H);
    r->h = tg_carve(c, TG_SCRATCH, M * H);
    r->keys = (uint32_t *)tg_carve(c, TG_SCRATCH, 2 * SITES * (int64_t)r->block);
    if (back) carve_back(e, c, r, M);
}

/* One block: `rows` rows x, M tokens, and the places of its thread. */
typedef struct block {
    const tg_exec *e;
    int rows, M;
    tg_dropout dropout;
    const float *x;
    float *slopes; /* the tile's share of their gradient, or NULL */
    room at;       /* its arrays are those of the thread */
} block;

static block first_block(const tg_exec *e, const tg_tile *t) {
    const attrs *a = e->attrs;
    block b = {.e = e, .dropout = tg_dropout_of(e, a->dropout), .at = *(const room *)e->room};
    float **places[] = {&b.at.qkv, &b.at.p, &b.at.context, &b.at.a, &b.at.r,    &b.at.u, &b.at.s,
                        &b.at.z,   &b.at.h, &b.at.g,       &b.at.d, &b.at.wide, &b.at.dh};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (*places[i] != NULL) *places[i] = tg_of_thread(e, t, *places[i]);
    b.at.keys = (uint32_t *)tg_of_thread(e, t, (float *)b.at.keys);
    return b;
}

/* The rows of the tile from `at` on: as many as a block takes. Every site of dropout has a key of its own. */
static void aim(block *b, const tg_tile *t, int at) {
    const tg_exec *e = b->e;
    uint32_t *keys = b->at.keys;
    b->rows = t->rows - at < b->at.block ? t->rows - at : b->at.block;
    b->M = b->rows * b->at.T;
    b->x = e->x[0] + (t->row + at) * e->in[0].cols;
    if (b->dropout.threshold == 0) return;
    tg_row_keys(e, t, at, b->rows, keys);
    for (int i = 0; i < b->rows; i++) {
        const uint64_t row = keys[2 * i] | (uint64_t)keys[2 * i + 1] << 32;
        for (int site = 0; site < SITES; site++) {
            const uint64_t key = tg_key(row, (uint64_t)site);
            keys[2 * (site * b->at.block + i)] = (uint32_t)key;
            keys[2 * (site * b->at.block + i) + 1] = (uint32_t)(key >> 32);
        }
    }
}

static const uint32_t *key_of(const block *b, int row, int site) {
    return b->at.keys + 2 * (site * b->at.block + row);
}

/* x(M,cols) as it is after the dropout of a site: in `to`, or x itself. `to` may be x. */
static const float *drop(const block *b, int site, int cols, const float *x, float *to) {
    if (b->dropout.threshold == 0) return x;
    b->e->k->drop_rows(b->rows, b->at.T * cols, x, &b->dropout, key_of(b, 0, site), to, 0);
    return to;
}

/* y(M,rows of the weight) = x(M,its columns) w^T + bias */
static void multiply(const block *b, int product, const float *x, float *y) {
    const tg_param_spec *w = &b->e->params[2 * product];
    b->e->k->gemm(b->M, w->rows, w->cols, x, w->cols, b->at.packed[product], y, w->rows,
                  b->e->w[2 * product + 1], 0);
}

static void norm(const block *b, int which, const float *x, float *y) {
    const float *const *w = b->e->w + (which == 0 ? NORM1_WEIGHT : NORM2_WEIGHT);
    b->e->k->layer_norm(b->M, b->at.W, x, w[0], w[1], EPS, y);
}

static void add(const block *b, const float *x, float *sum) {
    b->e->k->add_rows(1, (int64_t)b->M * b->at.W, x, 0, sum);
}

/* Attention of every row: context from qkv. */
static void attend(const block *b) {
    const attrs *a = b->e->attrs;
    const room *r = &b->at;
    const int T = r->T, W = r->W;
    for (int i = 0; i < b->rows; i++)
        b->e->k->attend(T, a->heads, W / a->heads, r->qkv + (int64_t)i * T * 3 * W, &b->dropout,
                        key_of(b, i, ATTENTION), r->p + (int64_t)i * a->heads * T * T,
                        r->context + (int64_t)i * T * W);
}

/* Everything up to s; y: where s goes under pre-norm, which is the result then, or NULL: not wanted. */
static void run_block(const block *b, float *y) {
    const attrs *a = b->e->attrs;
    const room *r = &b->at;
    const int pre = a->norm == PRE;
    float *s = pre ? y : r->s;
    if (pre) norm(b, 0, b->x, r->a);
    multiply(b, IN, pre ? r->a : b->x, r->qkv);
    attend(b);
    multiply(b, OUT, r->context, r->r);
    drop(b, BRANCH1, r->W, r->r, r->r);
    add(b, b->x, r->r);
    norm(b, pre, r->r, r->u);
    multiply(b, FIRST, r->u, r->z);
    tg_act_forward(b->e, &r->act, b->M, r->z, r->h);
    drop(b, HIDDEN, r->H, r->h, r->h);
    if (s == NULL) return;
    multiply(b, SECOND, r->h, s);
    drop(b, BRANCH2, r->W, s, s);
    add(b, pre ? r->r : r->u, s);
}

static void begin(const tg_exec *e) {
    const room *r = (const room *)e->room;
    tg_act_begin(e, &r->act);
    for (int i = 0; i < PRODUCTS; i++) {
        const tg_param_spec *w = &e->params[2 * i];
        tg_pack(e, 0, w->rows, w->cols, e->w[2 * i], w->cols, r->packed[i]);
    }
}

static void begin_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    begin(e);
    for (int i = 0; i < PRODUCTS; i++) {
        const tg_param_spec *w = &e->params[2 * i];
        tg_pack(e, 1, w->cols, w->rows, e->w[2 * i], w->cols, r->turned[i]);
    }
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    block b = first_block(e, t);
    for (int at = 0; at < t->rows; at += b.at.block) {
        float *to = y + (int64_t)at * e->out.cols;
        aim(&b, t, at);
        run_block(&b, to);
        if (a->norm == POST) norm(&b, 1, b.at.s, to);
    }
}

/* The gradient of the input of a norm, and the tile's shares of the norm's own. */
static void norm_back(const block *b, int which, const float *dy, const float *x, float *const *share,
                      float *dx) {
    const int w = which == 0 ? NORM1_WEIGHT : NORM2_WEIGHT;
    b->e->k->layer_norm_back(b->M, b->at.W, dy, x, b->e->w[w], EPS, dx, 0, share[w], share[w + 1]);
}

/* dx(M,columns of the weight) = dy w, and the shares of the weight and the bias. x: what was multiplied. */
static void multiply_back(const block *b, int product, const float *dy, const float *x, float *const *share,
                          float *dx) {
    const tg_param_spec *w = &b->e->params[2 * product];
    if (share[2 * product] != NULL) {
        b->e->k->gemm_tn(b->M, w->rows, w->cols, dy, w->rows, x, w->cols, share[2 * product], w->cols);
        b->e->k->add_rows(b->M, w->rows, dy, w->rows, share[2 * product + 1]);
    }
    b->e->k->gemm(b->M, w->cols, w->rows, dy, w->rows, b->at.turned[product], dx, w->cols, NULL, 0);
}

/* wide(M,3W) = the gradient of qkv, from that of the context. */
static void attend_back(const block *b, const float *dcontext) {
    const attrs *a = b->e->attrs;
    const room *r = &b->at;
    const int T = r->T, W = r->W;
    for (int i = 0; i < b->rows; i++)
        b->e->k->attend_grad(T, a->heads, W / a->heads, r->qkv + (int64_t)i * T * 3 * W, &b->dropout,
                             key_of(b, i, ATTENTION), r->p + (int64_t)i * a->heads * T * T,
                             dcontext + (int64_t)i * T * W, r->wide + (int64_t)i * T * 3 * W);
}

/* From the gradient of s to that of r, in g. ds: g itself under post-norm. */
static void feed_back(const block *b, const float *ds, float *const *share) {
    const attrs *a = b->e->attrs;
    const room *r = &b->at;
    const int pre = a->norm == PRE;
    multiply_back(b, SECOND, drop(b, BRANCH2, r->W, ds, r->d), r->h, share, r->dh);
    const float *dh = drop(b, HIDDEN, r->H, r->dh, r->dh);
    tg_act_backward(b->e, &r->act, b->M, dh, r->z, r->dh, b->slopes);
    multiply_back(b, FIRST, r->dh, r->u, share, r->d);
    if (!pre) add(b, ds, r->d);
    norm_back(b, pre, r->d, r->r, share, r->g);
    if (pre) add(b, ds, r->g);
}

static void run_block_back(const block *b, const float *dy, float *const *share, int64_t row) {
    const attrs *a = b->e->attrs;
    const room *r = &b->at;
    const int pre = a->norm == PRE;
    run_block(b, NULL);
    if (!pre) norm_back(b, 1, dy, r->s, share, r->g);
    feed_back(b, pre ? dy : r->g, share);
    multiply_back(b, OUT, drop(b, BRANCH1, r->W, r->g, r->d), r->context, share, r->u);
    attend_back(b, r->u);
    multiply_back(b, IN, r->wide, pre ? r->a : b->x, share, r->d);
    if (pre) norm_back(b, 0, r->d, b->x, share, r->d);
    add(b, r->d, r->g);
    tg_add_dx(b->e, 0, row, (int64_t)b->M * r->W, r->g);
}

static void backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    float *share[PARAMS], *place = r->shares;
    for (int p = 0; p < PARAMS; place += tg_dw_floats(e, p), p++) share[p] = tg_share_dw(e, t, place, p);
    block b = first_block(e, t);
    b.slopes = tg_act_share(e, t, &r->act);
    for (int at = 0; at < t->rows; at += b.at.block) {
        aim(&b, t, at);
        run_block_back(&b, dy + (int64_t)at * e->out.cols, share, t->row + at);
    }
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    float *place = r->shares;
    tg_act_end(e, &r->act);
    for (int p = 0; p < PARAMS; place += tg_dw_floats(e, p), p++) tg_sum_dw(e, place, p);
}

const tg_op tg_op_encoder_layer = {
    .name = "encoder_layer",
    .doc = "Transformer encoder layer over the tokens of each row (Vaswani et al. 2017).",
    .inputs = {{"x", TG_IN_ANY, 0}},
    .params = {[IN_WEIGHT] = "in_proj_weight",
               [IN_BIAS] = "in_proj_bias",
               [OUT_WEIGHT] = "out_proj_weight",
               [OUT_BIAS] = "out_proj_bias",
               [WEIGHT1] = "linear1_weight",
               [BIAS1] = "linear1_bias",
               [WEIGHT2] = "linear2_weight",
               [BIAS2] = "linear2_bias",
               [NORM1_WEIGHT] = "norm1_weight",
               [NORM1_BIAS] = "norm1_bias",
               [NORM2_WEIGHT] = "norm2_weight",
               [NORM2_BIAS] = "norm2_bias",
               [SLOPE] = TG_ACT_PARAM},
    .attrs =
        TG_ATTRS(TG_INT(attrs, tokens, 6, 1, TG_MOST_TOKENS, "tokens of a row"),
                 TG_INT(attrs, heads, 1, 1, 65536, "heads of the attention: they share a token's columns"),
                 TG_INT(attrs, hidden, 256, 1, 65536, "columns between the two feed-forward layers"),
                 TG_ACT_ATTRS(attrs, TG_ACT_RELU, "activation of the feed-forward layers"),
                 TG_CHOICE(attrs, norm, POST, "post|pre",
                           "layer norms after the residual sums, or before the branches"),
                 TG_REAL(attrs, dropout, 0, 0, TG_BELOW_ONE, "chance of dropping, in training"),
                 TG_CHOICE(attrs, init, 0, TG_LINEAR_INITS, TG_LINEAR_INITS_DOC)),
    .flags = TG_RANDOM,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .begin = begin, .forward = forward}},
    .backward =
        TG_BACKWARD({{.over = TG_OVER_OUTPUT, .begin = begin_back, .backward = backward, .end = end_back}}),
};
