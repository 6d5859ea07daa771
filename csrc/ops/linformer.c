/* Attention (heads.h) to a fixed number of keys per graph (Linformer, Wang et al. 2020): k' = E b(k),
   v' = F b(v), with E and F (project,bins). Graphs differ in size, so b first averages equal ranges of the
   nodes, in their order: node i of N is in bin floor(i bins / N); a bin without nodes is 0. */
#include "ops/heads.h"

#include <string.h>

enum { PROJECT_K, PROJECT_V };
enum { MEANS = TG_LSE + 1 }; /* saved: b(k), b(v) of every group, (bins,columns) */
enum { SIDES = 2 };          /* k and v: inputs TG_K and TG_V, parameters and means 0 and 1 */

typedef struct attrs {
    int heads, project, bins;
} attrs;

static tg_status plan(tg_op_plan *p, tg_error *err) {
    enum { MOST = 1 << 26 };
    const attrs *a = p->attrs;
    const tg_status status = tg_heads_plan(p, a->heads, err);
    if (status != TG_OK) return status;
    for (int i = 0; i < SIDES; i++) {
        const tg_shape in = p->in[TG_K + i];
        if ((int64_t)a->bins * in.cols > MOST)
            return tg_fail(err, TG_E_RECIPE, "%d bins of %d columns are more than 2^26 numbers: take fewer",
                           a->bins, in.cols);
        p->params[i] = tg_weight(a->project, a->bins, a->bins);
        p->saved[MEANS + i] = (tg_shape){tg_pooled_space(in.space), a->bins * in.cols};
    }
    return TG_OK;
}

typedef struct room {
    tg_heads h;
    float *small[SIDES]; /* (groups,project,columns): k', v' */
    float *packed;       /* of a product with means */
    float *sums; /* backward: gradients (project,columns) of k', then of v', per group or config of q; */
    float *part; /* and of a chunk */
    float *dmeans[SIDES]; /* backward: (groups,bins,columns) */
} room;
_Static_assert(sizeof(room) <= TG_ROOM_BYTES, "room");

/* Floats of the gradients of k' and v' of a group. */
static int64_t small_floats(const tg_exec *e) {
    return (int64_t)((const attrs *)e->attrs)->project * (e->in[TG_K].cols + e->in[TG_V].cols);
}

static int64_t floats_of_packed(const tg_exec *e, int cols) {
    const int bins = ((const attrs *)e->attrs)->bins;
    const int64_t to_small = tg_packed(e->k, cols, bins), to_weight = tg_packed(e->k, bins, cols);
    return to_small > to_weight ? to_small : to_weight;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    room *r = to;
    tg_heads_carve(e, back, c, a->heads, a->project, 0, &r->h);
    const int64_t groups = r->h.groups, slabs = groups > tg_per_out(e) ? groups : tg_per_out(e),
                  k = floats_of_packed(e, e->in[TG_K].cols), v = floats_of_packed(e, e->in[TG_V].cols);
    c->work += (back ? 6.0 : 2.0) * (double)groups * (double)small_floats(e) * a->bins;
    r->packed = tg_carve(c, TG_SHARED, k > v ? k : v);
    for (int i = 0; i < SIDES; i++) {
        r->small[i] = tg_carve(c, TG_SHARED, groups * a->project * e->in[TG_K + i].cols);
        if (back) r->dmeans[i] = tg_carve(c, TG_SHARED, groups * a->bins * e->in[TG_K + i].cols);
    }
    if (!back) return;
    r->sums = tg_carve(c, TG_SHARED, slabs * small_floats(e));
    r->part = tg_carve(c, TG_PARTIAL, small_floats(e));
}

/* The nodes of a bin: those from first_of(bin) to first_of(bin + 1). */
static int64_t first_of(const tg_exec *e, int64_t bin) {
    const int64_t bins = ((const attrs *)e->attrs)->bins;
    return (bin * e->slate->N + bins - 1) / bins;
}

/* ---- k' and v' ---- */

static void average(const tg_exec *e, void *context, int64_t part) {
    const int bins = ((const attrs *)e->attrs)->bins, groups = ((const room *)e->room)->h.groups;
    const int64_t bin = part % bins, group = part / bins, first = first_of(e, bin);
    const int rows = (int)(first_of(e, bin + 1) - first);
    const float share = rows > 0 ? 1.0f / (float)rows : 0;
    (void)context;
    for (int i = 0; i < SIDES; i++) {
        const int64_t cols = e->in[TG_K + i].cols;
        float *mean = e->saved[MEANS + i] + part * cols;
        memset(mean, 0, (size_t)cols * sizeof *mean);
        e->k->add_rows(rows, cols, e->x[TG_K + i] + (first * groups + group) * cols, groups * cols, mean);
        e->k->scale_rows(1, (int)cols, mean, cols, &share, mean, cols);
    }
}

/* k' and v' from the means, and their blocks. */
static void project(const tg_exec *e, int back) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    tg_groups small[SIDES];
    for (int i = 0; i < SIDES; i++) {
        const int cols = e->in[TG_K + i].cols;
        small[i] = (tg_groups){r->small[i], (int64_t)a->project * cols, cols};
        for (int64_t g = 0; g < r->h.groups; g++) {
            tg_pack(e, 1, cols, a->bins, e->saved[MEANS + i] + g * a->bins * cols, cols, r->packed);
            tg_gemm_rows(e, a->project, cols, a->bins, e->w[i], a->bins, r->packed,
                         r->small[i] + g * small[i].step, cols, NULL, 0);
        }
    }
    tg_heads_pack(e, back, &r->h, small[0], small[1]);
}

static void begin(const tg_exec *e) {
    const attrs *a = e->attrs;
    const int64_t parts = (int64_t)((const room *)e->room)->h.groups * a->bins;
    const double cols = e->in[TG_K].cols + e->in[TG_V].cols;
    tg_parts(e, parts, cols * (double)tg_rows(e->slate, e->in[TG_K].space), average, NULL);
    project(e, 0);
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    (void)y;
    tg_heads_forward(e, t, &((const room *)e->room)->h);
}

/* ---- backward ---- */

static void along(const tg_exec *e, const tg_tile *t, const float *dy) {
    tg_heads_along(e, t, &((const room *)e->room)->h, dy);
}

static void begin_back(const tg_exec *e) { project(e, 1); }

/* The gradient of q of rows i.. of the tile, and what they add to those of k' and v', at `sums`. */
static void back_of_rows(const tg_exec *e, const tg_tile *t, int i, int rows, int64_t group, float *dq,
                         float *sums) {
    const attrs *a = e->attrs;
    const tg_heads *h = &((const room *)e->room)->h;
    const int64_t wide = e->in[TG_K].cols, values = e->in[TG_V].cols;
    tg_head_grads to = {.ldq = t->stride * wide, .ldk = wide, .ldv = values};
    for (int head = 0; head < h->heads; head++)
        for (int j = 0; j < h->blocks; j++) {
            const int64_t first = (int64_t)j * h->block;
            if (dq != NULL) to.q = dq + i * to.ldq + head * h->D;
            to.k = sums + first * wide + head * h->D;
            to.v = sums + a->project * wide + first * values + head * h->V;
            tg_heads_back(e, t, h, head, t->row + (int64_t)i * t->stride, rows, t->stride,
                          tg_heads_block(h, group, head, j), to);
        }
}

/* Whether every query has keys of its own: the sums of its group come from nowhere else. */
static int alone(const tg_exec *e) {
    return ((const room *)e->room)->h.groups > 1 && !tg_has_nodes(e->out.space);
}

static void back_of_queries(const tg_exec *e, const tg_tile *t, const float *dy) {
    const room *r = (const room *)e->room;
    const int64_t n = small_floats(e);
    float *dq = tg_heads_rows(e, t, TG_Q, 0),
          *share = alone(e) ? NULL : tg_share(e, t, r->part, n, r->sums, 0);
    int64_t group;
    (void)dy;
    for (int i = 0, rows; i < t->rows; i += rows) {
        rows = tg_heads_group(e, t, &r->h, i, &group);
        float *sums = share == NULL ? r->sums + group * n : share;
        if (share == NULL) memset(sums, 0, (size_t)n * sizeof *sums);
        back_of_rows(e, t, i, rows, group, dq, sums);
    }
}

/* The gradient of k' or v' of a group. */
static const float *small_grad(const tg_exec *e, int side, int64_t group) {
    const room *r = (const room *)e->room;
    return r->sums + group * small_floats(e) +
           side * (int64_t)((const attrs *)e->attrs)->project * e->in[TG_K].cols;
}

/* Of the weight: that of k' or v' times the means^T, summed over the groups. */
static void back_of_weight(const tg_exec *e, int i) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int cols = e->in[TG_K + i].cols;
    for (int64_t g = 0; e->dw[i] != NULL && g < r->h.groups; g++) {
        tg_pack(e, 0, a->bins, cols, e->saved[MEANS + i] + g * a->bins * cols, cols, r->packed);
        tg_gemm_rows(e, a->project, a->bins, cols, small_grad(e, i, g), cols, r->packed, e->dw[i], a->bins,
                     NULL, e->dw_add[i] || g > 0);
    }
}

static void back_of_means(const tg_exec *e, void *context, int64_t part) {
    const attrs *a = e->attrs;
    const int i = (int)(part % SIDES), cols = e->in[TG_K + i].cols;
    const int64_t group = part / SIDES, n = (int64_t)a->bins * cols;
    float *dmeans = ((const room *)e->room)->dmeans[i] + group * n;
    (void)context;
    if (e->dx[TG_K + i] == NULL) return;
    memset(dmeans, 0, (size_t)n * sizeof *dmeans);
    e->k->gemm_tn(a->project, a->bins, cols, e->w[i], a->bins, small_grad(e, i, group), cols, dmeans, cols);
}

/* To the nodes of a bin. v comes before k, since both may be one slot. */
static void back_of_nodes(const tg_exec *e, void *context, int64_t part) {
    const room *r = (const room *)e->room;
    const int bins = ((const attrs *)e->attrs)->bins, groups = r->h.groups;
    const int64_t bin = part % bins, group = part / bins, first = first_of(e, bin);
    const int rows = (int)(first_of(e, bin + 1) - first);
    const float share = rows > 0 ? 1.0f / (float)rows : 0;
    unsigned written = 1 << TG_Q;
    (void)context;
    for (int i = SIDES - 1; i >= 0; written |= 1u << (TG_K + i--)) {
        const int64_t cols = e->in[TG_K + i].cols;
        if (e->dx[TG_K + i] == NULL) continue;
        float *d = r->dmeans[i] + part * cols;
        e->k->scale_rows(1, (int)cols, d, cols, &share, d, cols);
        e->k->copy_rows(rows, cols, d, 0, e->dx[TG_K + i] + (first * groups + group) * cols, groups * cols,
                        tg_adds_dx(e, TG_K + i, written));
    }
}

static void end_back(const tg_exec *e) {
    const attrs *a = e->attrs;
    const room *r = (const room *)e->room;
    const int64_t n = small_floats(e), groups = r->h.groups;
    const double rows = (double)tg_rows(e->slate, e->in[TG_K].space),
                 cols = e->in[TG_K].cols + e->in[TG_V].cols;
    if (!alone(e)) tg_sum_shares(e, r->part, n, r->sums, 0);
    if (groups == 1)
        e->k->add_rows(tg_per_out(e) - 1, n, r->sums + n, n, r->sums); /* all configs of q met one group */
    for (int i = 0; i < SIDES; i++) back_of_weight(e, i);
    tg_parts(e, SIDES * groups, 2.0 * (double)groups * (double)n * a->bins, back_of_means, NULL);
    tg_parts(e, groups * a->bins, rows * cols, back_of_nodes, NULL);
}

const tg_op tg_op_linformer = {
    .name = "linformer",
    .doc = "Attention with as many keys and values for every graph (Linformer, Wang et al. 2020): the nodes "
           "are averaged in bins, equal ranges of their order (node i of N in bin floor(i * bins / N), "
           "empty bins are 0), and the bins projected.",
    .inputs = {{"q", TG_IN_NODES | TG_IN(CONFIG), 0}, {"k", TG_IN_NODES, 0}, {"v", TG_IN_NODES, 0}},
    .params = {[PROJECT_K] = "project_k", [PROJECT_V] = "project_v"},
    .attrs = TG_ATTRS(TG_INT(attrs, heads, 1, 1, 4096, "heads, side by side in the columns"),
                      TG_INT(attrs, project, 64, 1, 4096, "keys and values that are left"),
                      TG_INT(attrs, bins, 256, 1, 65536, "ranges that nodes are averaged in")),
    .flags = TG_PER_GRAPH,
    .most_rows = TG_HEAD_ROWS,
    .plan = plan,
    .carve = carve,
    .forward = {{.over = TG_OVER_OUTPUT, .by_config = 1, .grain = 16, .begin = begin, .forward = forward}},
    .backward = TG_BACKWARD({{.over = TG_OVER_OUTPUT, .backward = along},
                             {.over = TG_OVER_OUTPUT,
                              .by_config = 1,
                              .grain = 16,
                              .begin = begin_back,
                              .backward = back_of_queries,
                              .end = end_back}}),
};
