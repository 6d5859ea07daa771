#include "ops/op.h"

#include <math.h>
#include <string.h>

#include <omp.h>

#include "base/parallel.h"

const tg_op *const tg_ops[] = {
#define TG_ENTRY(name) &tg_op_##name,
    TG_OP_LIST(TG_ENTRY)
#undef TG_ENTRY
        NULL};

const tg_op *tg_find_op(const char *name) {
    for (int i = 0; tg_ops[i] != NULL; i++)
        if (strcmp(tg_ops[i]->name, name) == 0) return tg_ops[i];
    return NULL;
}

/* ---- the loop ---- */

enum {
    TILE = 64,   /* rows: enough to amortise touching a weight gradient, few enough to stay in L2 */
    GRAIN = 640, /* rows of a chunk: enough to amortise its partial sums ... */
    FEW = 4, /* ... but so many chunks even of small work, and a multiple of it: threads wait for odd ones */
};

tg_loop tg_loop_of(const tg_exec *e) {
    const tg_space space = e->op->reduces ? e->in[0].space : e->out.space;
    tg_loop loop = {tg_items(e->slate, space), 1, tg_per_item(e->slate, space)};
    const int64_t rows = loop.items * loop.per;
    loop.chunks = rows < FEW * TILE ? tg_chunks(rows, TILE, FEW) : tg_chunks(rows, GRAIN, TG_MAX_CHUNKS);
    if (rows >= FEW * TILE) loop.chunks = (loop.chunks + FEW - 1) / FEW * FEW;
    if (loop.chunks > loop.items) loop.chunks = loop.items;
    return loop;
}

/* Several nodes, one node, or equal parts of the configs of one node. */
static int tile_rows(tg_loop loop, int whole_nodes, int most) {
    if (loop.per >= most) {
        const int parts = whole_nodes ? 1 : (loop.per + most - 1) / most;
        return (loop.per + parts - 1) / parts;
    }
    const int64_t items = most / loop.per, longest = (loop.items + loop.chunks - 1) / loop.chunks;
    return (int)(items < longest ? items : longest) * loop.per;
}

static void run_tile(const tg_exec *e, int back, const tg_tile *t) {
    const int64_t at = t->row * e->out.cols;
    if (back) e->op->backward(e, t, e->op->reduces ? e->dy : e->dy + at);
    else e->op->forward(e, t, e->op->reduces || e->y == NULL ? NULL : e->y + at);
}

/* Parts of nodes: the first part of every node, then the second ..., so that what is kept per config and column
   (statistics, sums) stays in cache from node to node. */
static void run_chunk(const tg_exec *e, int back, tg_loop loop, int64_t chunk, int thread) {
    tg_tile t = {.chunk = chunk,
                 .chunk_begin = tg_chunk_start(loop.items, loop.chunks, chunk),
                 .chunk_end = tg_chunk_start(loop.items, loop.chunks, chunk + 1),
                 .first = 1,
                 .thread = thread};
    const int width = e->tile_rows < loop.per ? e->tile_rows : loop.per, step = e->tile_rows / width;
    for (t.from = 0; t.from < loop.per; t.from += width)
        for (t.item = t.chunk_begin; t.item < t.chunk_end; t.item += step) {
            const int64_t items = t.chunk_end - t.item < step ? t.chunk_end - t.item : step;
            t.row = t.item * loop.per + t.from;
            t.rows = step > 1 || width == loop.per ? (int)items * loop.per
                     : loop.per - t.from < width   ? loop.per - t.from
                                                   : width;
            t.last = t.from + width >= loop.per && t.item + items == t.chunk_end;
            run_tile(e, back, &t);
            t.first = 0;
        }
}

static double begin(const tg_exec *e, int back) {
    double work = e->op->sizes(e, back).work;
    if (e->from != NULL) work += begin(e->from, 0);
    if (back && e->into != NULL) work += begin(e->into, 1);
    if (e->op->begin != NULL) e->op->begin(e, back);
    return work;
}

static void end(const tg_exec *e, int back) {
    if (e->op->end != NULL) e->op->end(e, back);
    if (e->from != NULL) end(e->from, 0);
    if (back && e->into != NULL) end(e->into, 1);
}

static int threads_for(const tg_exec *e, double work, int64_t parts) {
    int threads = tg_threads(work);
    if (threads > parts) threads = (int)parts;
    return threads < e->threads ? threads : e->threads; /* the number may have been changed since binding */
}

void tg_run(tg_exec *e, int back) {
    const tg_loop loop = tg_loop_of(e);
    if (back && e->dy_fix != NULL && e->op->fixes_dy == TG_FIXED_BEFORE) {
        tg_apply_fix(e, e->dy_fix, e->y, e->out.cols, e->dy);
        e->dy_fix = NULL;
    }
    const int threads = threads_for(e, begin(e, back), loop.chunks);
    if (threads == 1) { /* a region of one thread would make a team all the same */
        for (int64_t i = 0; i < loop.chunks; i++) run_chunk(e, back, loop, i, 0);
    } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < loop.chunks; i++) run_chunk(e, back, loop, i, omp_get_thread_num());
    }
    end(e, back);
}

void tg_parts(const tg_exec *e, int64_t n, double work, tg_part_fn *fn, void *context) {
    const int threads = threads_for(e, work, n);
    if (threads == 1) {
        for (int64_t i = 0; i < n; i++) fn(e, context, i);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t i = 0; i < n; i++) fn(e, context, i);
    }
}

/* ---- memory ---- */

static void set_tile_rows(tg_exec *e, int rows) {
    e->tile_rows = rows;
    if (e->from != NULL) set_tile_rows(e->from, rows);
    if (e->into != NULL) set_tile_rows(e->into, rows);
}

static int any_whole(const tg_exec *e) {
    return e->whole_nodes || (e->from != NULL && any_whole(e->from)) ||
           (e->into != NULL && any_whole(e->into));
}

static int64_t padded(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

static int64_t place(tg_exec *e, int back, int inner, float *base) {
    const tg_sizes s = e->op->sizes(e, back);
    int64_t at = 0;
    e->shared = base;
    at += padded(s.shared);
    e->partial_stride = padded(s.partial);
    e->partials = base == NULL ? NULL : base + at;
    at += e->partial_stride * tg_loop_of(e).chunks;
    e->scratch_stride = padded(s.scratch) + 16; /* keeps threads off each other's cache lines */
    e->scratch = base == NULL ? NULL : base + at;
    at += e->scratch_stride * e->threads;
    e->tile_stride = inner || (back && e->dy_fix != NULL && e->op->fixes_dy == TG_FIXED_IN_TILES)
                         ? padded((int64_t)e->tile_rows * e->out.cols) + 16
                         : 0;
    e->tiles = base == NULL ? NULL : base + at;
    at += e->tile_stride * e->threads;
    if (e->from != NULL) at += place(e->from, 0, 1, base == NULL ? NULL : base + at);
    if (back && e->into != NULL) at += place(e->into, 1, 1, base == NULL ? NULL : base + at);
    return at;
}

int64_t tg_place_call(tg_exec *e, int back, float *base) {
    const int own = e->from == NULL && e->op->tile_rows > 0; /* several ops' rows must fit L2 together */
    set_tile_rows(e, tile_rows(tg_loop_of(e), any_whole(e), own ? e->op->tile_rows : TILE));
    return place(e, back, 0, base);
}

/* ---- tiles ---- */

static float *own_tile(const tg_exec *e, const tg_tile *t) { return e->tiles + t->thread * e->tile_stride; }

const float *tg_pull(const tg_exec *e, const tg_tile *t) {
    if (e->from == NULL) return e->x[0] + t->row * e->in[0].cols;
    float *y = own_tile(e->from, t);
    e->from->op->forward(e->from, t, y);
    return y;
}

float *tg_dx(const tg_exec *e, const tg_tile *t) {
    if (e->into != NULL) return own_tile(e->into, t);
    return e->dx[0] == NULL ? NULL : e->dx[0] + t->row * e->in[0].cols;
}

void tg_push(const tg_exec *e, const tg_tile *t, const float *dx) {
    if (e->into != NULL) e->into->op->backward(e->into, t, dx);
}

const float *tg_dy(const tg_exec *e, const tg_tile *t, const float *dy) {
    if (e->dy_fix == NULL) return dy;
    const int cols = e->out.cols, per = tg_per_item(e->slate, e->out.space);
    const int64_t n = (int64_t)per * cols;
    float *fixed = own_tile(e, t);
    for (int at = 0; at < t->rows; at += per) { /* node by node; a part of one node is less than one */
        const int rows = t->rows - at < per ? t->rows - at : per;
        const float *fix = e->dy_fix + (int64_t)t->from * cols;
        e->k->fix((int64_t)rows * cols, dy + (int64_t)at * cols, e->y + (t->row + at) * cols, fix, n,
                  fixed + (int64_t)at * cols);
    }
    return fixed;
}

/* ---- sums and products ---- */

enum { COLUMNS = 4096 }; /* elements a thread reduces at a time */

typedef struct sum_context {
    int64_t at, n, first, chunks;
    float *dst;
    int add;
} sum_context;

static void sum_part(const tg_exec *e, void *context, int64_t i) {
    const sum_context *s = context;
    const int64_t begin_ = i * COLUMNS, size = s->n - begin_ < COLUMNS ? s->n - begin_ : COLUMNS;
    float *dst = s->dst + begin_;
    if (!s->add) memset(dst, 0, (size_t)size * sizeof *dst);
    e->k->add_rows((int)(s->chunks - s->first), size,
                   e->partials + s->first * e->partial_stride + s->at + begin_, e->partial_stride, dst);
}

static void sum_chunks(const tg_exec *e, sum_context s) {
    s.chunks = tg_loop_of(e).chunks;
    if (s.first == s.chunks) return;
    tg_parts(e, (s.n + COLUMNS - 1) / COLUMNS, (double)s.chunks * (double)s.n, sum_part, &s);
}

void tg_sum_partials(const tg_exec *e, int64_t at, int64_t n, float *dst, int add) {
    sum_chunks(e, (sum_context){.at = at, .n = n, .dst = dst, .add = add});
}

float *tg_share(const tg_exec *e, const tg_tile *t, int64_t at, int64_t n, float *dst, int add) {
    float *share = t->chunk == 0 ? dst : tg_partial(e, t) + at;
    if (t->first && !(t->chunk == 0 && add)) memset(share, 0, (size_t)n * sizeof *share);
    return share;
}

void tg_sum_shares(const tg_exec *e, int64_t at, int64_t n, float *dst) {
    sum_chunks(e, (sum_context){.at = at, .n = n, .first = 1, .dst = dst, .add = 1});
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
    const int64_t row = i * TILE, rows = g->m - row < TILE ? g->m - row : TILE;
    e->k->gemm((int)rows, g->n, g->k, g->a + row * g->lda, g->lda, g->b, g->c + row * g->ldc, g->ldc, g->bias,
               g->add);
}

void tg_gemm_rows(const tg_exec *e, int64_t m, int n, int k, const float *a, int64_t lda, const float *b,
                  float *c, int64_t ldc, const float *bias, int add) {
    gemm_context g = {m, lda, ldc, n, k, add, a, b, bias, c};
    tg_parts(e, (m + TILE - 1) / TILE, 2.0 * (double)m * n * k, gemm_part, &g);
}

tg_param_spec tg_weight(const char *name, int rows, int cols, int fan_in) {
    return (tg_param_spec){name, rows, cols, TG_INIT_UNIFORM, (float)(1.0 / sqrt(fan_in < 1 ? 1 : fan_in))};
}

void tg_add_linear(tg_op_plan *plan, const char *weight, const char *bias, int O, int F, int xavier) {
    tg_param_spec *w = &plan->params[plan->n_params], *b = w + 1;
    *w = tg_weight(weight, O, F, F);
    *b = tg_weight(bias, O, 0, F);
    if (xavier) {
        w->init = TG_INIT_NORMAL;
        w->value = (float)sqrt(2.0 / (O + F));
        b->init = TG_INIT_CONSTANT;
        b->value = 0.01f;
    }
    plan->n_params += 2;
}
