/* The loops of an op over its rows, and the memory of a call. */
#include "ops/op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/openmp.h"

#include "base/parallel.h"
#include "base/rng.h"

/* ---- the loop ---- */

static const tg_phase *phases_of(const tg_exec *e, int back) {
    return back ? e->op->backward : e->op->forward;
}

static int count_phases(const tg_exec *e, int back) {
    const tg_phase *phases = phases_of(e, back);
    int n = 0;
    while (n < TG_MAX_PHASES && (phases[n].forward != NULL || phases[n].backward != NULL)) n++;
    return n;
}

/* Several nodes, one node, or equal parts of the configs of one node. */
static int tile_rows(tg_loop loop, int whole_nodes, int most) {
    TG_ASSERT(loop.items >= 0 && loop.per >= 1 && loop.configs >= 1 && most >= 1);
    if (loop.per >= most) {
        const int parts = whole_nodes ? 1 : (loop.per + most - 1) / most;
        return (loop.per + parts - 1) / parts;
    }
    const int64_t items = most / loop.per, longest = (loop.items + loop.chunks - 1) / loop.chunks;
    return (int)(items < longest || longest < 1 ? items : longest) * loop.per;
}

/* Rows of an array in the space of the loop, from the tile's on; NULL if the loop is over something else. */
static float *rows_of(const tg_exec *e, const tg_tile *t, float *array) {
    return e->phase->over != TG_OVER_OUTPUT || array == NULL ? NULL : array + t->row * e->out.cols;
}

static void run_backward(const tg_exec *e, const tg_tile *t, const float *dy) {
    if (t->first && e->norm_sums != NULL) {
        const int64_t n = 2 * (int64_t)tg_per_in(e) * e->in[0].cols;
        memset(tg_of_chunk(e, t, e->norm_sums), 0, (size_t)n * sizeof(float));
    }
    e->phase->backward(e, t, dy);
}

static void run_tile(const tg_exec *e, int back, const tg_tile *t) {
    TG_ASSERT(t->rows >= 1 && t->item >= t->chunk_begin && t->item < t->chunk_end);
    if (back) run_backward(e, t, rows_of(e, t, e->dy));
    else e->phase->forward(e, t, rows_of(e, t, e->y));
}

/* Some nodes of one config. */
static void run_config(const tg_exec *e, int back, tg_loop loop, int most, tg_tile *t) {
    t->from = (int)(t->chunk / loop.chunks);
    for (t->item = t->chunk_begin; t->item < t->chunk_end; t->item += most) {
        t->rows = t->chunk_end - t->item < most ? (int)(t->chunk_end - t->item) : most;
        t->row = t->item * loop.configs + t->from;
        t->last = t->item + t->rows == t->chunk_end;
        run_tile(e, back, t);
        t->first = 0;
    }
}

/* Parts of nodes: the first part of every node, then the second ..., so that what is kept per config and column
   (statistics, sums) stays in cache from node to node. */
static void run_chunk(const tg_exec *e, int back, tg_loop loop, int most, int64_t chunk, int thread) {
    const int64_t part = chunk % loop.chunks;
    tg_tile t = {.stride = loop.configs,
                 .chunk = chunk,
                 .chunk_begin = tg_chunk_start(loop.items, loop.chunks, part),
                 .chunk_end = tg_chunk_start(loop.items, loop.chunks, part + 1),
                 .first = 1,
                 .thread = thread};
    if (e->phase->by_config) {
        run_config(e, back, loop, most, &t);
        return;
    }
    const int width = most < loop.per ? most : loop.per, step = most / width;
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

static void begin(const tg_exec *e, int back) {
    if (e->from != NULL) begin(e->from, 0);
    if (back && e->into != NULL) begin(e->into, 1);
    if (e->phase->begin != NULL) e->phase->begin(e);
}

static void end(const tg_exec *e, int back, int last) {
    if (e->phase->end != NULL) e->phase->end(e);
    if (last && !back) tg_stats_end(e);
    if (last && back) tg_norm_end(e);
    if (e->from != NULL) end(e->from, 0, last);
    if (back && e->into != NULL) end(e->into, 1, last);
}

/* Chunks for the host's threads: each takes the next one. */
typedef struct hosted {
    const tg_exec *e;
    tg_loop loop;
    int back, most;
    int64_t chunks;
    _Atomic int64_t next;
} hosted;

static void run_hosted(void *argument, int32_t thread) {
    hosted *h = argument;
    for (int64_t i; (i = h->next++) < h->chunks;) run_chunk(h->e, h->back, h->loop, h->most, i, thread);
}

static void run_phase(tg_exec *e, int back, int number, int last) {
    const tg_loop loop = tg_loop_of(e);
    const int64_t chunks = loop.chunks * loop.configs;
    const int threads = tg_threads_for(e, e->work, chunks), most = e->phase_rows[number];
    begin(e, back);
    if (threads == 1) { /* a region of one thread would make a team all the same */
        for (int64_t i = 0; i < chunks; i++) run_chunk(e, back, loop, most, i, 0);
    } else if (tg_hosted()) {
        hosted h = {e, loop, back, most, chunks, 0};
        tg_host_run(run_hosted, &h, threads);
    } else {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < chunks; i++) run_chunk(e, back, loop, most, i, omp_get_thread_num());
    }
    end(e, back, last);
}

static void close_call(tg_exec *e, int back);

void tg_run(tg_exec *e, int back) {
    const int phases = count_phases(e, back);
    TG_ASSERT(e->base != NULL && (back || phases >= 1));
    if (back && e->dy_fix != NULL && e->op->fixes_dy == TG_FIXED_BEFORE) {
        tg_apply_fix(e, e->dy_fix, e->y, e->out.cols, e->dy);
        e->dy_fix = NULL;
    }
    for (int i = 0; i < phases; i++) {
        e->phase = &phases_of(e, back)[i];
        run_phase(e, back, i, i == phases - 1);
    }
    if (TG_REDZONE > 0) close_call(e, back);
}

/* ---- memory ---- */

static int64_t padded(int64_t floats) { return (floats + 15) & ~(int64_t)15; }

/* Checked builds: redzones behind `copies` places, `stride` apart; with `closing`, they are looked at. */
static void guard(float *place, int copies, int64_t stride, int64_t floats, const char *closing) {
    for (int i = 0; TG_REDZONE > 0 && i < copies; i++) {
        if (closing != NULL) tg_redzone_close(closing, place + i * stride, (size_t)floats * sizeof *place);
        else tg_redzone_open(place + i * stride, (size_t)floats * sizeof *place);
    }
}

float *tg_carve(tg_carver *c, tg_memory kind, int64_t floats) {
    const int64_t at = c->at[kind];
    TG_ASSERT(floats >= 0);
    c->at[kind] += padded(floats + TG_REDZONE);
    if (c->base[kind] == NULL) return NULL;
    float *place = c->base[kind] + at;
    guard(place, c->copies[kind], c->stride[kind], floats, c->closing);
    return place;
}

static int any_whole(const tg_exec *e) {
    return e->whole_nodes || (e->from != NULL && any_whole(e->from)) ||
           (e->into != NULL && any_whole(e->into));
}

/* The rows of a tile in every phase of the call, and in those within it, which have one phase. */
static void set_tile_rows(tg_exec *e, int back, const int *rows, int phases) {
    e->tile_rows = 0;
    for (int i = 0; i < phases; i++) {
        e->phase_rows[i] = rows[i];
        if (rows[i] > e->tile_rows) e->tile_rows = rows[i];
    }
    e->phase = phases_of(e, back);
    if (e->from != NULL) set_tile_rows(e->from, 0, rows, phases);
    if (e->into != NULL) set_tile_rows(e->into, 1, rows, phases);
}

static int64_t most_chunks(tg_exec *e, int back) {
    const int phases = count_phases(e, back);
    int64_t most = 1;
    for (int i = 0; i < phases; i++) {
        e->phase = &phases_of(e, back)[i];
        const tg_loop loop = tg_loop_of(e);
        if (loop.chunks * loop.configs > most) most = loop.chunks * loop.configs;
    }
    e->phase = phases_of(e, back);
    return most;
}

/* The op's places, and those of the fused norms. */
static void carve(tg_exec *e, int back, tg_carver *c) {
    memset(e->room, 0, sizeof e->room);
    const int64_t in = 3 * (int64_t)tg_per_in(e) * e->in[0].cols, out = (int64_t)tg_per_out(e) * e->out.cols;
    if (!back && e->y_stats != NULL) e->moments = tg_moments_carve(c, out);
    e->norm_sums = back && e->x_stats != NULL ? tg_carve(c, TG_PARTIAL, in) : NULL;
    e->op->carve(e, back, c, e->room);
}

static int tile_copies(const tg_exec *e, int back, int inner) {
    return inner || (back && e->dy_fix != NULL && e->op->fixes_dy == TG_FIXED_IN_TILES);
}

/* The places of one call, without those within it; returns its floats. */
static int64_t place_one(tg_exec *e, int back, int inner, float *base, const char *closing) {
    tg_carver c = {.copies = {1, (int)most_chunks(e, back), e->threads}};
    carve(e, back, &c);
    e->work = c.work;
    e->partial_stride = c.at[TG_PARTIAL];
    e->scratch_stride = c.at[TG_SCRATCH] + 16; /* keeps threads off each other's cache lines */
    e->tile_stride =
        tile_copies(e, back, inner) ? padded((int64_t)e->tile_rows * e->out.cols + TG_REDZONE) + 16 : 0;
    const int64_t partials = c.at[TG_SHARED], scratch = partials + e->partial_stride * c.copies[TG_PARTIAL],
                  tiles = scratch + e->scratch_stride * e->threads;
    if (base != NULL) {
        e->tiles = base + tiles;
        e->partials = base + partials;
        tg_carver real = {.base = {base, e->partials, base + scratch},
                          .stride = {0, e->partial_stride, e->scratch_stride},
                          .copies = {1, c.copies[TG_PARTIAL], e->threads},
                          .closing = closing};
        carve(e, back, &real);
        if (e->tile_stride > 0)
            guard(e->tiles, e->threads, e->tile_stride, (int64_t)e->tile_rows * e->out.cols, closing);
    }
    return tiles + e->tile_stride * e->threads;
}

static int64_t place(tg_exec *e, int back, int inner, float *base, const char *closing) {
    int64_t at = place_one(e, back, inner, base, closing);
    if (e->from != NULL) at += place(e->from, 0, 1, base == NULL ? NULL : base + at, closing);
    if (back && e->into != NULL) at += place(e->into, 1, 1, base == NULL ? NULL : base + at, closing);
    if (e->from != NULL) e->work += e->from->work;
    if (back && e->into != NULL) e->work += e->into->work;
    return at;
}

int64_t tg_place_call(tg_exec *e, int back, float *base) {
    TG_ASSERT(e->op != NULL && e->k != NULL && e->slate != NULL && e->attrs != NULL && e->threads >= 1);
    TG_ASSERT(e->slate->N >= 1 && e->slate->C >= 1 && e->n_in <= tg_op_most_in(e->op));
    const int own = e->from == NULL && e->op->most_rows > 0; /* several ops' rows must fit L2 together */
    const int phases = count_phases(e, back), whole = any_whole(e);
    int rows[TG_MAX_PHASES];
    for (int i = 0; i < phases; i++) {
        e->phase = &phases_of(e, back)[i];
        rows[i] = tile_rows(tg_loop_of(e), whole, own ? e->op->most_rows : TG_TILE);
    }
    set_tile_rows(e, back, rows, phases);
    e->base = base;
    e->floats = place(e, back, 0, base, NULL);
    return e->floats;
}

static void close_call(tg_exec *e, int back) {
    place(e, back, 0, e->base, e->op->name);
    tg_unpoison(e->base, (size_t)e->floats * sizeof *e->base);
}

/* ---- tiles ---- */

static float *own_tile(const tg_exec *e, const tg_tile *t) { return e->tiles + t->thread * e->tile_stride; }

const float *tg_pull(const tg_exec *e, const tg_tile *t) {
    TG_ASSERT(e->from != NULL || e->x[0] != NULL);
    if (e->from == NULL) return e->x[0] + t->row * e->in[0].cols;
    float *y = own_tile(e->from, t);
    e->from->phase->forward(e->from, t, y);
    return y;
}

float *tg_dx(const tg_exec *e, const tg_tile *t) {
    if (e->into != NULL) return own_tile(e->into, t);
    return e->dx[0] == NULL ? NULL : e->dx[0] + t->row * e->in[0].cols;
}

void tg_push(const tg_exec *e, const tg_tile *t, const float *dx) {
    if (e->into != NULL) run_backward(e->into, t, dx);
}

const float *tg_dy(const tg_exec *e, const tg_tile *t, const float *dy) {
    if (e->dy_fix == NULL) return dy;
    const int cols = e->out.cols, per = tg_per_out(e);
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

void tg_add_dx(const tg_exec *e, int i, int64_t row, int64_t n, const float *d) {
    if (e->dx[i] == NULL) return;
    TG_ASSERT(row >= 0 && n >= 0 &&
              row * e->in[i].cols + n <= tg_rows(e->slate, e->in[i].space) * e->in[i].cols);
    float *dx = e->dx[i] + row * e->in[i].cols;
    if (e->dx_add[i]) e->k->add_rows(1, n, d, 0, dx);
    else if (dx != d) memcpy(dx, d, (size_t)n * sizeof *dx);
}

int tg_adds_dx(const tg_exec *e, int i, unsigned written) {
    TG_ASSERT(i < e->n_in && e->dx[i] != NULL);
    int add = e->dx_add[i];
    for (int j = 0; j < e->n_in; j++) {
        if (j == i || e->dx[j] != e->dx[i]) continue;
        if (written >> j & 1) return 1;
        add &= e->dx_add[j];
    }
    return add;
}

/* ---- random numbers ---- */

tg_dropout tg_dropout_of(const tg_exec *e, double p) {
    const double chance = e->training ? p : 0;
    TG_ASSERT(p >= 0 && p < 1);
    return (tg_dropout){(uint32_t)fmin(rint(chance * 0x1p31), 0x7fffffff), (float)(1.0 / (1.0 - chance))};
}

void tg_row_keys(const tg_exec *e, const tg_tile *t, int at, int rows, uint32_t *keys) {
    const int C = tg_per_out(e);
    TG_ASSERT(t->stride == 1 && at >= 0 && at + rows <= t->rows);
    int config = (t->from + at) % C;
    uint64_t node = (uint64_t)((t->row + at) / C), node_key = tg_key(e->key, node);
    for (int i = 0; i < rows; i++, config++) {
        if (config == C) {
            config = 0;
            node_key = tg_key(e->key, ++node);
        }
        const uint64_t key = tg_key(node_key, (uint64_t)config);
        keys[2 * i] = (uint32_t)key;
        keys[2 * i + 1] = (uint32_t)(key >> 32);
    }
}
