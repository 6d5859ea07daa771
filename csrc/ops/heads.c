#include "ops/heads.h"

#include <math.h>
#include <string.h>

static int per_config(const tg_op_plan *p, int i) { return p->in[i].space == TG_SPACE_NODE_CONFIG; }

static tg_status check_spaces(const tg_op_plan *p, tg_error *err) {
    if (p->in[TG_V].space != p->in[TG_K].space)
        return tg_fail(err, TG_E_RECIPE, "k has one row per %s, v one per %s",
                       tg_space_name(p->in[TG_K].space), tg_space_name(p->in[TG_V].space));
    if (p->in[TG_Q].space == TG_SPACE_NODE && per_config(p, TG_K))
        return tg_fail(
            err, TG_E_RECIPE,
            "q has one row per node, k one per node and config: give q rows per node and config, or "
            "per config");
    return TG_OK;
}

tg_status tg_check_same_rows(const tg_op_plan *p, tg_error *err) {
    for (int i = TG_K; i <= TG_V; i++)
        if (p->in[i].space != p->in[TG_Q].space)
            return tg_fail(err, TG_E_RECIPE, "q has one row per %s, %s one per %s",
                           tg_space_name(p->in[TG_Q].space), i == TG_K ? "k" : "v",
                           tg_space_name(p->in[i].space));
    return TG_OK;
}

tg_status tg_check_heads(const tg_op_plan *p, int heads, tg_error *err) {
    const int wide = p->in[TG_Q].cols, values = p->in[TG_V].cols;
    if (p->in[TG_K].cols != wide)
        return tg_fail(err, TG_E_RECIPE, "q has %d column%s, k has %d", wide, TG_S(wide), p->in[TG_K].cols);
    if (wide % heads != 0 || values % heads != 0)
        return tg_fail(err, TG_E_RECIPE, "%d column%s of q and %d of v do not make %d heads", wide,
                       TG_S(wide), values, heads);
    return TG_OK;
}

tg_status tg_heads_plan(tg_op_plan *p, int heads, tg_error *err) {
    tg_status status = check_spaces(p, err);
    if (status == TG_OK) status = tg_check_heads(p, heads, err);
    if (status != TG_OK) return status;
    p->out = (tg_shape){p->in[TG_Q].space, p->in[TG_V].cols};
    p->saved[TG_LSE] = (tg_shape){p->in[TG_Q].space, heads};
    p->needs_in = 1 << TG_Q | 1 << TG_K | 1 << TG_V;
    p->needs_out = 1;
    return TG_OK;
}

void tg_heads_carve(const tg_exec *e, int back, tg_carver *c, int heads, int64_t keys, int tile_keys,
                    tg_heads *h) {
    const int64_t rows = tg_rows(e->slate, e->out.space), wide = e->in[TG_Q].cols, values = e->in[TG_V].cols;
    const tg_memory packs = tile_keys ? TG_SCRATCH : TG_SHARED;
    *h = (tg_heads){.heads = heads, .D = (int)wide / heads, .V = (int)values / heads, .keys = keys};
    h->groups = tg_per_item(e->slate, e->in[TG_K].space);
    h->block = tile_keys ? e->tile_rows : keys < TG_HEAD_BLOCK ? (int)keys : TG_HEAD_BLOCK;
    h->blocks = (int)((keys + h->block - 1) / h->block);
    h->scale = (float)(1 / sqrt(h->D));
    h->k_floats = tg_packed(e->k, h->block, h->D);
    h->v_floats = back ? tg_packed(e->k, h->block, h->V) : tg_packed(e->k, h->V, h->block);
    h->turned_floats = tg_packed(e->k, h->D, h->block);
    const int64_t count = tile_keys ? 1 : (int64_t)h->groups * heads * h->blocks,
                  scores = (int64_t)(tile_keys ? TG_HEAD_BLOCK : e->tile_rows) * h->block;
    c->work += (back ? 5.0 : 2.0) * (double)rows * (double)keys * (double)(wide + values + 16 * heads);
    h->k = tg_carve(c, packs, count * h->k_floats);
    h->v = tg_carve(c, packs, count * h->v_floats);
    h->s = tg_carve(c, TG_SCRATCH, scores);
    if (!back) {
        h->top = tg_carve(c, TG_SCRATCH, e->tile_rows);
        h->sum = tg_carve(c, TG_SCRATCH, e->tile_rows);
        h->fade = tg_carve(c, TG_SCRATCH, e->tile_rows);
        return;
    }
    h->turned = tg_carve(c, packs, count * h->turned_floats);
    h->d = tg_carve(c, TG_SCRATCH, scores);
    h->along = tg_carve(c, TG_SHARED, rows * heads);
}

/* ---- packing ---- */

static void pack(const tg_exec *e, int back, const tg_heads *h, int keys, const float *k, int64_t ldk,
                 const float *v, int64_t ldv, float *const to[3]) {
    e->k->pack_nt(keys, h->D, k, ldk, to[0]);
    if (!back) {
        e->k->pack_nn(h->V, keys, v, ldv, to[1]);
        return;
    }
    e->k->pack_nt(keys, h->V, v, ldv, to[1]);
    e->k->pack_nn(h->D, keys, k, ldk, to[2]);
}

typedef struct pack_context {
    const tg_heads *h;
    tg_groups k, v;
    int back;
} pack_context;

static void pack_part(const tg_exec *e, void *context, int64_t i) {
    const pack_context *p = context;
    const tg_heads *h = p->h;
    const int64_t group = i / h->blocks / h->heads, first = i % h->blocks * h->block;
    const int head = (int)(i / h->blocks % h->heads);
    const int keys = h->keys - first < h->block ? (int)(h->keys - first) : h->block;
    float *const to[] = {h->k + i * h->k_floats, h->v + i * h->v_floats,
                         p->back ? h->turned + i * h->turned_floats : NULL};
    pack(e, p->back, h, keys, p->k.at + group * p->k.step + first * p->k.ld + head * h->D, p->k.ld,
         p->v.at + group * p->v.step + first * p->v.ld + head * h->V, p->v.ld, to);
}

void tg_heads_pack(const tg_exec *e, int back, const tg_heads *h, tg_groups k, tg_groups v) {
    pack_context p = {h, k, v, back};
    const int64_t parts = (int64_t)h->groups * h->heads * h->blocks;
    tg_parts(e, parts, 8.0 * (double)parts * h->block * (h->D + h->V), pack_part, &p);
}

tg_block tg_heads_block(const tg_heads *h, int64_t group, int head, int block) {
    const int64_t i = (group * h->heads + head) * h->blocks + block,
                  left = h->keys - (int64_t)block * h->block;
    return (tg_block){left < h->block ? (int)left : h->block, h->k + i * h->k_floats, h->v + i * h->v_floats,
                      h->turned == NULL ? NULL : h->turned + i * h->turned_floats};
}

tg_block tg_heads_pack_tile(const tg_exec *e, const tg_tile *t, const tg_heads *h, int head) {
    const int64_t wide = e->in[TG_K].cols, values = e->in[TG_V].cols;
    float *const to[] = {tg_of_thread(e, t, h->k), tg_of_thread(e, t, h->v), tg_of_thread(e, t, h->turned)};
    pack(e, 1, h, t->rows, e->x[TG_K] + t->row * wide + head * h->D, t->stride * wide,
         e->x[TG_V] + t->row * values + head * h->V, t->stride * values, to);
    return (tg_block){t->rows, to[0], to[1], to[2]};
}

/* ---- the passes ---- */

int tg_heads_group(const tg_exec *e, const tg_tile *t, const tg_heads *h, int i, int64_t *group) {
    const int alone = h->groups > 1 && !tg_has_nodes(e->out.space);
    *group = h->groups == 1 ? 0 : alone ? t->row + i : t->from;
    return alone ? 1 : t->rows - i;
}

/* y(rows,V) and the sums of a head, of queries from `row` on. */
static void forward_head(const tg_exec *e, const tg_tile *t, const tg_heads *h, int64_t group, int head,
                         int64_t row, int rows) {
    const int64_t ldq = (int64_t)t->stride * e->in[TG_Q].cols, ldy = (int64_t)t->stride * e->out.cols;
    const float *q = e->x[TG_Q] + row * e->in[TG_Q].cols + head * h->D;
    float *y = e->y + row * e->out.cols + head * h->V, *s = tg_of_thread(e, t, h->s),
          *top = tg_of_thread(e, t, h->top), *sum = tg_of_thread(e, t, h->sum),
          *fade = tg_of_thread(e, t, h->fade);
    for (int i = 0; i < rows; i++) top[i] = -INFINITY, sum[i] = 0;
    for (int j = 0; j < h->blocks; j++) {
        const tg_block b = tg_heads_block(h, group, head, j);
        e->k->gemm(rows, b.keys, h->D, q, ldq, b.k, s, h->block, NULL, 0);
        e->k->soften(rows, b.keys, h->scale, s, h->block, top, sum, fade);
        if (j > 0) e->k->scale_rows(rows, h->V, y, ldy, fade, y, ldy);
        e->k->gemm(rows, h->V, b.keys, s, h->block, b.v, y, ldy, NULL, j > 0);
    }
    for (int i = 0; i < rows; i++) {
        e->saved[TG_LSE][(row + (int64_t)i * t->stride) * h->heads + head] = top[i] + logf(sum[i]);
        fade[i] = 1 / sum[i];
    }
    e->k->scale_rows(rows, h->V, y, ldy, fade, y, ldy);
}

void tg_heads_forward(const tg_exec *e, const tg_tile *t, const tg_heads *h) {
    int64_t group;
    for (int i = 0, rows; i < t->rows; i += rows) {
        rows = tg_heads_group(e, t, h, i, &group);
        for (int head = 0; head < h->heads; head++)
            forward_head(e, t, h, group, head, t->row + (int64_t)i * t->stride, rows);
    }
}

void tg_heads_along(const tg_exec *e, const tg_tile *t, const tg_heads *h, const float *dy) {
    TG_ASSERT(t->stride == 1);
    e->k->row_dots(t->rows * h->heads, h->V, dy, h->V, e->y + t->row * e->out.cols, h->V,
                   h->along + t->row * h->heads);
}

float *tg_heads_rows(const tg_exec *e, const tg_tile *t, int i, unsigned written) {
    const int cols = e->in[i].cols;
    if (e->dx[i] == NULL) return NULL;
    float *dx = e->dx[i] + t->row * cols;
    if (tg_adds_dx(e, i, written)) return dx;
    for (int j = 0; j < t->rows; j++)
        memset(dx + (int64_t)j * t->stride * cols, 0, (size_t)cols * sizeof *dx);
    return dx;
}

void tg_heads_back(const tg_exec *e, const tg_tile *t, const tg_heads *h, int head, int64_t row, int rows,
                   int64_t stride, tg_block b, tg_head_grads to) {
    const int64_t ldq = stride * e->in[TG_Q].cols, ldy = stride * e->out.cols;
    const float *q = e->x[TG_Q] + row * e->in[TG_Q].cols + head * h->D,
                *dy = e->dy + row * e->out.cols + head * h->V;
    float *s = tg_of_thread(e, t, h->s), *d = tg_of_thread(e, t, h->d);
    e->k->gemm(rows, b.keys, h->D, q, ldq, b.k, s, b.keys, NULL, 0);
    e->k->gemm(rows, b.keys, h->V, dy, ldy, b.v, d, b.keys, NULL, 0);
    e->k->soften_back(rows, b.keys, h->scale, e->saved[TG_LSE] + row * h->heads + head,
                      h->along + row * h->heads + head, stride * h->heads, s, d);
    if (to.v != NULL) e->k->gemm_tn(rows, b.keys, h->V, s, b.keys, dy, ldy, to.v, to.ldv);
    if (to.k != NULL) e->k->gemm_tn(rows, b.keys, h->D, d, b.keys, q, ldq, to.k, to.ldk);
    if (to.q != NULL) e->k->gemm(rows, h->D, b.keys, d, b.keys, b.turned, to.q, to.ldq, NULL, 1);
}
