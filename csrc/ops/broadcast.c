#include "ops/broadcast.h"

#include <string.h>

/* The axes of a space. */
enum { NO_ITEMS, NODES, CONFIG_NODES, EDGES, CELLS };
static const struct {
    int items, configs;
} axes[TG_SPACES] = {
    [TG_SPACE_NODE] = {NODES, 0},
    [TG_SPACE_NODE_CONFIG] = {NODES, 1},
    [TG_SPACE_CONFIG_NODE] = {CONFIG_NODES, 0},
    [TG_SPACE_CONFIG_NODE_CONFIG] = {CONFIG_NODES, 1},
    [TG_SPACE_EDGE] = {EDGES, 0},
    [TG_SPACE_EDGE_CONFIG] = {EDGES, 1},
    [TG_SPACE_CONFIG] = {NO_ITEMS, 1},
    [TG_SPACE_SLATE] = {NO_ITEMS, 0},
    [TG_SPACE_UNIQUE] = {CELLS, 0},
};

tg_status tg_join_inputs(const tg_op_plan *p, tg_space *space, tg_error *err) {
    int items = NO_ITEMS, configs = 0, whose = 0;
    for (int i = 0; i < p->n_in; i++) {
        const int here = axes[p->in[i].space].items;
        if (here != NO_ITEMS && items != NO_ITEMS && here != items)
            return tg_fail(err, TG_E_RECIPE, "rows per %s and rows per %s have nothing in common",
                           tg_space_name(p->in[whose].space), tg_space_name(p->in[i].space));
        if (here != NO_ITEMS) items = here, whose = i;
        configs |= axes[p->in[i].space].configs;
    }
    for (int s = 0; s < TG_SPACES; s++)
        if (axes[s].items == items && axes[s].configs == configs) {
            *space = (tg_space)s;
            return TG_OK;
        }
    return tg_fail(err, TG_E_RECIPE, "rows per %s cannot be repeated over the configs",
                   tg_space_name(p->in[whose].space));
}

/* Along what input i is repeated. Configs that are items themselves (no nodes) count as items. */
typedef struct repeats {
    int items, configs;
} repeats;

static repeats repeats_of(const tg_exec *e, int i) {
    const tg_space in = e->in[i].space, out = e->out.space;
    if (in == out) return (repeats){0, 0};
    if (out == TG_SPACE_CONFIG) return (repeats){1, 0};
    return (repeats){axes[in].items != axes[out].items, axes[in].configs != axes[out].configs};
}

/* Rows of the tile from row `at` on that belong to one item, and the config of the first. */
static int one_item(const tg_exec *e, const tg_tile *t, int at, int *config) {
    const int C = tg_per_out(e);
    *config = (t->from + at) % C;
    return t->rows - at < C - *config ? t->rows - at : C - *config;
}

void tg_spread(const tg_exec *e, const tg_tile *t, int i, float *y, int64_t ldy, int add) {
    const repeats r = repeats_of(e, i);
    const int n = e->in[i].cols;
    const float *x = e->x[i];
    if (!r.items && !r.configs) {
        e->k->copy_rows(t->rows, n, i == 0 ? tg_pull(e, t) : x + t->row * n, n, y, ldy, add);
    } else if (r.items && (r.configs || tg_per_out(e) == 1)) {
        e->k->copy_rows(t->rows, n, x, 0, y, ldy, add);
    } else {
        for (int at = 0, config, rows; at < t->rows; at += rows, y += rows * ldy) {
            rows = one_item(e, t, at, &config);
            const int64_t row = r.items ? config : (t->row + at) / tg_per_out(e);
            e->k->copy_rows(rows, n, x + row * n, r.items ? n : 0, y, ldy, add);
        }
    }
}

/* Floats of an input that is repeated over items: its gradient is a sum over all tiles. */
static int64_t summed(const tg_exec *e, int i) {
    return repeats_of(e, i).items ? tg_rows(e->slate, e->in[i].space) * e->in[i].cols : 0;
}

void tg_carve_joined(const tg_exec *e, int back, tg_carver *c, void *to) {
    for (int i = 0; i < e->n_in; i++) {
        c->work += (double)tg_rows(e->slate, e->out.space) * e->in[i].cols;
        if (back && e->dx[i] != NULL && summed(e, i) > 0)
            ((tg_joined *)to)->places[i] = tg_carve(c, TG_PARTIAL, summed(e, i));
    }
}

/* dx(n) of the item that row `at` of the tile is of = [dx +] the sum over its configs, which may come in several
   tiles. */
static void gather_item(const tg_exec *e, const tg_tile *t, int i, int at, int rows, int config,
                        const float *dy, int64_t ldd) {
    const int n = e->in[i].cols;
    float *dx = e->dx[i] + (t->row + at) / tg_per_out(e) * n;
    if (config == 0 && !e->dx_add[i]) memset(dx, 0, (size_t)n * sizeof *dx);
    e->k->add_rows(rows, n, dy, ldd, dx);
}

void tg_gather(const tg_exec *e, const tg_tile *t, int i, const float *dy, int64_t ldd) {
    float *place = ((const tg_joined *)e->room)->places[i];
    const repeats r = repeats_of(e, i);
    const int n = e->in[i].cols;
    if (!r.items && !r.configs) {
        float *dx = i == 0 ? tg_dx(e, t) : e->dx[i] == NULL ? NULL : e->dx[i] + t->row * n;
        if (dx == NULL) return;
        const int add = !(i == 0 && e->into != NULL) && e->dx_add[i];
        if (dx != dy || add) e->k->copy_rows(t->rows, n, dy, ldd, dx, n, add);
        if (i == 0) tg_push(e, t, dx);
        return;
    }
    if (e->dx[i] == NULL) return;
    const int64_t size = summed(e, i);
    float *share = r.items ? tg_share(e, t, place, size, e->dx[i], e->dx_add[i]) : NULL;
    if (r.items && (r.configs || tg_per_out(e) == 1)) {
        e->k->add_rows(t->rows, n, dy, ldd, share);
        return;
    }
    for (int at = 0, config, rows; at < t->rows; at += rows, dy += rows * ldd) {
        rows = one_item(e, t, at, &config);
        if (r.items) e->k->copy_rows(rows, n, dy, ldd, share + (int64_t)config * n, n, 1);
        else gather_item(e, t, i, at, rows, config, dy, ldd);
    }
}

void tg_gather_end(const tg_exec *e) {
    const tg_joined *r = (const tg_joined *)e->room;
    for (int i = 0; i < e->n_in; i++)
        if (e->dx[i] != NULL && summed(e, i) > 0)
            tg_sum_shares(e, r->places[i], summed(e, i), e->dx[i], e->dx_add[i]);
}
