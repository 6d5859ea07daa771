/* Sums over chunks and matrix products on threads, for the op files. See op.h. */
#include <math.h>
#include <string.h>

#include "ops/op.h"

enum { COLUMNS = 4096, ROWS = 64 }; /* elements a thread reduces, rows it multiplies at a time */

typedef struct sum_context {
    const float *place;
    int64_t n, first, chunks;
    float *dst;
    int add;
} sum_context;

static void sum_part(const tg_exec *e, void *context, int64_t i) {
    const sum_context *s = context;
    const int64_t begin_ = i * COLUMNS, size = s->n - begin_ < COLUMNS ? s->n - begin_ : COLUMNS;
    float *dst = s->dst + begin_;
    if (!s->add) memset(dst, 0, (size_t)size * sizeof *dst);
    e->k->add_rows((int)(s->chunks - s->first), size, s->place + s->first * e->partial_stride + begin_,
                   e->partial_stride, dst);
}

static void sum_chunks(const tg_exec *e, sum_context s) {
    const tg_loop loop = tg_loop_of(e);
    s.chunks = loop.chunks;
    if (loop.items == 0) { /* no tile came */
        if (!s.add) memset(s.dst, 0, (size_t)s.n * sizeof *s.dst);
        return;
    }
    if (s.first == s.chunks) return;
    if (s.first > 0) s.add = 1; /* to what chunk 0 left there */
    tg_parts(e, (s.n + COLUMNS - 1) / COLUMNS, (double)s.chunks * (double)s.n, sum_part, &s);
}

float *tg_share(const tg_exec *e, const tg_tile *t, float *place, int64_t n, float *dst, int add) {
    const int leads = t->chunk_begin == 0;
    TG_ASSERT(dst != NULL);
    float *share = !leads ? tg_of_chunk(e, t, place) : e->phase->by_config ? dst + t->from * n : dst;
    if (t->first && !(leads && add)) memset(share, 0, (size_t)n * sizeof *share);
    return share;
}

/* By config: the chunks of one config after those of the one before, and so in dst. */
static void sum_configs(const tg_exec *e, sum_context s) {
    const tg_loop loop = tg_loop_of(e);
    for (int c = 0; c < loop.configs; c++, s.place += loop.chunks * e->partial_stride, s.dst += s.n)
        sum_chunks(e, s);
}

void tg_sum_partials(const tg_exec *e, const float *place, int64_t n, float *dst, int add) {
    sum_configs(e, (sum_context){.place = place, .n = n, .dst = dst, .add = add});
}

void tg_sum_shares(const tg_exec *e, const float *place, int64_t n, float *dst, int add) {
    sum_configs(e, (sum_context){.place = place, .n = n, .first = 1, .dst = dst, .add = add});
}

float *tg_share_dw(const tg_exec *e, const tg_tile *t, float *place, int p) {
    return e->dw[p] == NULL ? NULL : tg_share(e, t, place, tg_dw_floats(e, p), e->dw[p], e->dw_add[p]);
}

void tg_sum_dw(const tg_exec *e, const float *place, int p) {
    if (e->dw[p] != NULL) tg_sum_shares(e, place, tg_dw_floats(e, p), e->dw[p], e->dw_add[p]);
}

typedef struct pack_context {
    int transposed, n, k;
    int64_t ldw;
    const float *w;
    float *b;
} pack_context;

static void pack_part(const tg_exec *e, void *context, int64_t i) {
    const pack_context *p = context;
    const int at = (int)i * 2 * e->k->nr, cols = p->n - at < 2 * e->k->nr ? p->n - at : 2 * e->k->nr;
    float *b = p->b + tg_packed(e->k, at, p->k);
    if (p->transposed) e->k->pack_nn(cols, p->k, p->w + at, p->ldw, b);
    else e->k->pack_nt(cols, p->k, p->w + at * p->ldw, p->ldw, b);
}

void tg_pack(const tg_exec *e, int transposed, int n, int k, const float *w, int64_t ldw, float *b) {
    TG_ASSERT(n >= 0 && k >= 0 && ldw >= (transposed ? n : k));
    pack_context p = {transposed, n, k, ldw, w, b};
    tg_parts(e, (n + 2 * e->k->nr - 1) / (2 * e->k->nr), 8.0 * n * k, pack_part, &p);
}

typedef struct gemm_context {
    int64_t m, lda, ldc;
    int n, k, add;
    const float *a, *b, *bias;
    float *c;
} gemm_context;

static void gemm_part(const tg_exec *e, void *context, int64_t i) {
    const gemm_context *g = context;
    const int64_t row = i * ROWS, rows = g->m - row < ROWS ? g->m - row : ROWS;
    e->k->gemm((int)rows, g->n, g->k, g->a + row * g->lda, g->lda, g->b, g->c + row * g->ldc, g->ldc, g->bias,
               g->add);
}

void tg_gemm_rows(const tg_exec *e, int64_t m, int n, int k, const float *a, int64_t lda, const float *b,
                  float *c, int64_t ldc, const float *bias, int add) {
    TG_ASSERT(m >= 0 && lda >= k && ldc >= n);
    gemm_context g = {m, lda, ldc, n, k, add, a, b, bias, c};
    tg_parts(e, (m + ROWS - 1) / ROWS, 2.0 * (double)m * n * k, gemm_part, &g);
}

tg_param_spec tg_weight(int rows, int cols, int fan_in) {
    const float bound = (float)(1.0 / sqrt(fan_in < 1 ? 1 : fan_in));
    return (tg_param_spec){.rows = rows, .cols = cols, .init = TG_INIT_UNIFORM, .value = bound};
}

tg_param_spec tg_glorot(int rows, int cols) {
    return (tg_param_spec){NULL, rows, cols, TG_INIT_UNIFORM, sqrtf(6.0f / (float)(rows + cols))};
}

void tg_add_linear(tg_op_plan *plan, int at, int O, int F, int init) {
    tg_param_spec *w = &plan->params[at], *b = w + 1;
    *w = tg_weight(O, F, F);
    *b = tg_weight(O, 0, F);
    if (init == TG_LINEAR_GLOROT) *w = tg_glorot(O, F);
    if (init == TG_LINEAR_LECUN) w->value *= (float)sqrt(3.0);
    if (init != TG_LINEAR_XAVIER) return;
    w->init = TG_INIT_NORMAL;
    w->value = (float)sqrt(2.0 / (O + F));
    b->init = TG_INIT_CONSTANT;
    b->value = 0.01f;
}
