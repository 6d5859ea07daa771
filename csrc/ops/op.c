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

/* A chunk should hold some hundred rows: enough to amortise its partial sums, few enough to balance threads.
 */
tg_loop tg_loop_over(const tg_slate *slate, tg_space space) {
    tg_loop loop = {tg_items(slate, space), 1, tg_per_item(slate, space)};
    int64_t grain = 384 / loop.per;
    loop.chunks = tg_chunks(loop.items, grain < 1 ? 1 : grain, TG_MAX_CHUNKS);
    return loop;
}

void tg_run_chunks(const tg_exec *e, tg_loop loop, double flops, tg_chunk_fn *fn, void *context) {
    int threads = tg_threads(flops);
    if (threads > loop.chunks) threads = (int)loop.chunks;
    if (threads > e->threads) threads = e->threads; /* the number may have been changed since binding */
#pragma omp parallel num_threads(threads)
    {
        float *scratch = e->scratch + omp_get_thread_num() * e->scratch_stride;
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < loop.chunks; i++)
            fn(e, context, i, tg_chunk_start(loop.items, loop.chunks, i),
               tg_chunk_start(loop.items, loop.chunks, i + 1), scratch);
    }
}

enum { COLUMNS = 4096 }; /* elements a thread reduces at a time */

void tg_sum_partials(int64_t chunks, int64_t n, const float *partials, int64_t stride, float *dst, int add) {
#pragma omp parallel for schedule(static) num_threads(tg_threads((double)chunks *(double)n))
    for (int64_t begin = 0; begin < n; begin += COLUMNS) {
        int64_t end = begin + COLUMNS < n ? begin + COLUMNS : n;
        for (int64_t i = begin; i < end && !add; i++) dst[i] = 0;
        for (int64_t c = 0; c < chunks; c++)
            for (int64_t i = begin; i < end; i++) dst[i] += partials[c * stride + i];
    }
}

void tg_stats_tile(const tg_kernels *k, float *partial, int64_t n, const float *tile, int first) {
    if (first) {
        memcpy(partial, tile, (size_t)n * sizeof *tile);
        memset(partial + n, 0, 2 * (size_t)n * sizeof *tile);
    } else {
        k->stats_add(n, tile, partial, partial + n, partial + 2 * n);
    }
}

enum { STATS_BLOCK = 512 };

/* Chan, Golub, LeVeque: merge counts, means and squared deviations of the chunks in their order. */
static void merge_stats(tg_loop loop, int64_t n, const float *partials, int64_t begin, int width,
                        float *stats) {
    double mean[STATS_BLOCK] = {0}, m2[STATS_BLOCK] = {0}, count = 0;
    for (int64_t c = 0; c < loop.chunks; c++) {
        const float *shift = partials + c * tg_stats_floats(n) + begin, *s = shift + n, *q = s + n;
        const double here = (double)(tg_chunk_start(loop.items, loop.chunks, c + 1) -
                                     tg_chunk_start(loop.items, loop.chunks, c));
        const double share = here / (count + here), cross = count * share, inverse = 1 / here;
        for (int i = 0; i < width; i++) {
            const double delta = shift[i] + s[i] * inverse - mean[i];
            m2[i] += q[i] - (double)s[i] * s[i] * inverse + delta * delta * cross;
            mean[i] += delta * share;
        }
        count += here;
    }
    for (int i = 0; i < width; i++) {
        stats[begin + i] = (float)mean[i];
        stats[n + begin + i] = (float)(1.0 / sqrt((m2[i] > 0 ? m2[i] / count : 0) + 1e-5));
    }
}

void tg_stats_finish(tg_loop loop, int64_t n, const float *partials, float *stats) {
#pragma omp parallel for schedule(static) num_threads(tg_threads(8.0 * (double)loop.chunks * (double)n))
    for (int64_t begin = 0; begin < n; begin += STATS_BLOCK)
        merge_stats(loop, n, partials, begin, (int)(n - begin < STATS_BLOCK ? n - begin : STATS_BLOCK),
                    stats);
}

typedef struct stats_context {
    const float *x;
    int64_t n;
    float *partials;
} stats_context;

static void stats_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                        float *scratch) {
    const stats_context *s = context;
    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        tg_stats_tile(e->k, s->partials + chunk * tg_stats_floats(s->n), s->n, s->x + i * s->n, i == begin);
}

void tg_stats_of(const tg_exec *e, const float *x, int64_t n, float *partials, float *stats) {
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    stats_context context = {x, n, partials};
    tg_run_chunks(e, loop, 4.0 * (double)loop.items * (double)n, stats_chunk, &context);
    tg_stats_finish(loop, n, partials, stats);
}

static void norm_chunk(const tg_exec *e, void *context, int64_t chunk, int64_t begin, int64_t end,
                       float *scratch) {
    const int64_t n = (int64_t)e->slate->C * e->in[0].cols;
    const float *sums = context;
    const float inverse = 1.0f / (float)e->slate->N;
    (void)chunk, (void)scratch;
    for (int64_t i = begin; i < end; i++)
        e->k->norm_undo(n, inverse, e->x[0] + i * n, e->x_stats, e->x_stats + n, sums, sums + n,
                        e->dx[0] + i * n);
}

void tg_norm_finish(const tg_exec *e, const float *sums) {
    tg_loop loop = tg_loop_over(e->slate, TG_SPACE_NODE_CONFIG);
    const double elements = (double)loop.items * e->slate->C * e->in[0].cols;
    tg_run_chunks(e, loop, 6.0 * elements, norm_chunk, (void *)sums);
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
