/* How many rows there are, how they are cut into chunks, and the threads that take these. */
#include "base/openmp.h"

#include "base/parallel.h"
#include "ops/op.h"

enum {
    GRAIN = 640, /* rows of a chunk: enough to amortise its partial sums ... */
    FEW = 4,     /* ... but at least this many, and a multiple: threads wait for odd ones */
};

typedef struct space_size {
    int64_t items;
    int per;
} space_size;

static inline space_size size_of(const tg_slate *s, tg_space space) {
    switch (space) {
#define SIZE(name, text, items, per)                                                                         \
    case TG_SPACE_##name: return (space_size){items, per};
        TG_SPACE_LIST(SIZE)
#undef SIZE
    default: return (space_size){0, 1};
    }
}

int64_t tg_items(const tg_slate *s, tg_space space) { return size_of(s, space).items; }

int tg_per_item(const tg_slate *s, tg_space space) { return size_of(s, space).per; }

static tg_space widest(const tg_exec *e) {
    int at = 0;
    for (int i = 1; i < e->n_in; i++)
        if (tg_per_item(e->slate, e->in[i].space) > tg_per_item(e->slate, e->in[at].space)) at = i;
    return e->in[at].space;
}

tg_loop tg_loop_of(const tg_exec *e) {
    const int over = e->phase->over;
    const tg_space space = over == TG_OVER_OUTPUT   ? e->out.space
                           : over == TG_OVER_WIDEST ? widest(e)
                           : over <= TG_OVER_INPUT  ? e->in[TG_OVER_INPUT - over].space
                                                    : (tg_space)over;
    const int grain = e->phase->grain > 0 ? e->phase->grain : TG_TILE,
              most = e->phase->most_chunks > 0 ? e->phase->most_chunks : TG_MAX_CHUNKS;
    const int per = tg_per_item(e->slate, space), by_config = e->phase->by_config;
    tg_loop loop = {tg_items(e->slate, space), 1, by_config ? 1 : per, by_config ? per : 1};
    const int64_t rows = loop.items * loop.per;
    loop.chunks = rows < FEW * TG_TILE ? tg_chunks(rows, grain, FEW) : tg_chunks(rows, GRAIN, most);
    if (rows >= FEW * TG_TILE) loop.chunks = (loop.chunks + FEW - 1) / FEW * FEW;
    if (loop.chunks * loop.configs > most && loop.configs > 1)
        loop.chunks = loop.configs < most ? most / loop.configs : 1;
    if (loop.chunks > loop.items) loop.chunks = loop.items > 0 ? loop.items : 1;
    return loop;
}

int tg_threads_for(const tg_exec *e, double work, int64_t parts) {
    int threads = tg_task_threads(work);
    if (threads > parts) threads = (int)parts;
    return threads < e->threads ? threads : e->threads; /* the number may have been changed since binding */
}

/* Every count-th part from i on. */
typedef struct hosted {
    const tg_exec *e;
    tg_part_fn *fn;
    void *context;
    int64_t n;
    int threads;
} hosted;

static void run_hosted(void *argument, int32_t i) {
    const hosted *h = argument;
    for (int64_t part = i; part < h->n; part += h->threads) h->fn(h->e, h->context, part);
}

void tg_parts(const tg_exec *e, int64_t n, double work, tg_part_fn *fn, void *context) {
    const int threads = tg_threads_for(e, work, n);
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++) fn(e, context, i);
    } else if (tg_hosted()) {
        hosted h = {e, fn, context, n, threads};
        tg_host_run(run_hosted, &h, threads);
    } else {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t i = 0; i < n; i++) fn(e, context, i);
    }
}
