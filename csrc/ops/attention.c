/* Softmax attention over all nodes of a graph (heads.h). Queries are nodes, their rows per config, or configs;
   keys are nodes, or those of the config. Forward goes over the queries. Backward goes over the keys: their
   gradients are complete in a tile, and that of q is a sum over the tiles. So it takes five products; a loop
   over the queries, too, instead of the sum would make it seven. */
#include "ops/heads.h"

/* Of both backward phases: there is a `part` for every chunk of the phase with most. */
enum { MOST_CHUNKS = 8 };

typedef struct attrs {
    int heads;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    return tg_heads_plan(p, ((const attrs *)p->attrs)->heads, err);
}

typedef struct room {
    tg_heads h;
    int64_t queries; /* that meet a group of keys, `stride` rows apart */
    int stride;
    float *dq, *part; /* backward: (groups,queries,columns of q), and (queries,...) of a chunk */
} room;
_Static_assert(sizeof(room) <= TG_ROOM_BYTES, "room");

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    room *r = to;
    tg_heads_carve(e, back, c, ((const attrs *)e->attrs)->heads, e->slate->N, back, &r->h);
    r->queries = tg_rows(e->slate, e->out.space) / r->h.groups;
    r->stride = r->h.groups > 1 ? tg_per_out(e) : 1;
    if (!back || e->dx[TG_Q] == NULL) return;
    r->dq = tg_carve(c, TG_SHARED, tg_rows(e->slate, e->out.space) * e->in[TG_Q].cols);
    r->part = tg_carve(c, TG_PARTIAL, r->queries * e->in[TG_Q].cols);
}

/* Input i, whose rows of a config lie `groups` apart. */
static tg_groups grouped(const tg_exec *e, const tg_heads *h, int i) {
    return (tg_groups){e->x[i], e->in[i].cols, (int64_t)h->groups * e->in[i].cols};
}

static void begin(const tg_exec *e) {
    const tg_heads *h = &((const room *)e->room)->h;
    tg_heads_pack(e, 0, h, grouped(e, h, TG_K), grouped(e, h, TG_V));
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    (void)y;
    tg_heads_forward(e, t, &((const room *)e->room)->h);
}

static void along(const tg_exec *e, const tg_tile *t, const float *dy) {
    tg_heads_along(e, t, &((const room *)e->room)->h, dy);
}

static void back_of_keys(const tg_exec *e, const tg_tile *t, const float *unused) {
    const room *r = (const room *)e->room;
    const tg_heads *h = &r->h;
    const int64_t wide = e->in[TG_Q].cols;
    float *dv = tg_heads_rows(e, t, TG_V, 0), *dk = tg_heads_rows(e, t, TG_K, 1 << TG_V),
          *dq = r->dq == NULL ? NULL : tg_share(e, t, r->part, r->queries * wide, r->dq, 0);
    (void)unused;
    for (int head = 0; head < h->heads; head++) {
        const tg_block b = tg_heads_pack_tile(e, t, h, head);
        tg_head_grads to = {
            .ldq = wide, .ldk = t->stride * wide, .ldv = (int64_t)t->stride * e->in[TG_V].cols};
        if (dk != NULL) to.k = dk + head * h->D;
        if (dv != NULL) to.v = dv + head * h->V;
        for (int64_t at = 0; at < r->queries; at += TG_HEAD_BLOCK) {
            const int64_t left = r->queries - at;
            if (dq != NULL) to.q = dq + at * wide + head * h->D;
            tg_heads_back(e, t, h, head, t->from + at * r->stride,
                          left < TG_HEAD_BLOCK ? (int)left : TG_HEAD_BLOCK, r->stride, b, to);
        }
    }
}

static void end_back(const tg_exec *e) {
    const room *r = (const room *)e->room;
    const int64_t wide = e->in[TG_Q].cols, n = r->queries * wide;
    const int rows = r->h.groups == 1 ? 1 : (int)r->queries; /* of one group: one long row */
    if (r->dq == NULL) return;
    tg_sum_shares(e, r->part, n, r->dq, 0);
    const int add = tg_adds_dx(e, TG_Q, 1 << TG_K | 1 << TG_V);
    for (int g = 0; g < r->h.groups; g++)
        e->k->copy_rows(rows, n / rows, r->dq + g * n, n / rows, e->dx[TG_Q] + g * wide, r->stride * wide,
                        add);
}

const tg_op tg_op_attention = {
    .name = "attention",
    .doc = "Softmax attention over the nodes of a graph (Vaswani et al. 2017), scores divided by the root "
           "of a head's columns. Keys with rows per node and config are those of the query's config.",
    .inputs = {{"q", TG_IN_NODES | TG_IN(CONFIG), 0}, {"k", TG_IN_NODES, 0}, {"v", TG_IN_NODES, 0}},
    .attrs = TG_ATTRS(TG_INT(attrs, heads, 1, 1, 4096, "heads, side by side in the columns")),
    .flags = TG_PER_GRAPH,
    .most_rows = TG_HEAD_ROWS,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .by_config = 1, .grain = 16, .begin = begin, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .most_chunks = MOST_CHUNKS, .backward = along},
                             {.over = TG_OVER_INPUT - TG_K,
                              .by_config = 1,
                              .most_chunks = MOST_CHUNKS,
                              .backward = back_of_keys,
                              .end = end_back}}),
};
