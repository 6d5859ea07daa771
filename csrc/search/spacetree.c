#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/space.h"

enum {
    CHECKS = 16 << 20, /* of tests for one tree, at most */
    CALL = 32          /* a test that is called costs as much as so many others */
};

int32_t tg_cspace_fails(const tg_cspace *space, const tg_cspace_level *level, const tg_cspace_point *point,
                        tg_error *err) {
    for (int32_t i = 0; i < level->n_tests; i++) {
        const int holds = tg_cspace_holds(space, &space->tests[level->tests[i]], point, err);
        if (holds != 1) return holds == 0 ? i : -2;
    }
    return -1;
}

void tg_cspace_set_node(const tg_cspace *space, const tg_cspace_group *group, int64_t node,
                        tg_cspace_point *point) {
    for (int32_t l = group->depth - 1; l >= 0; l--) {
        tg_cspace_set(space, point, group->levels[l].param, group->levels[l].code[node]);
        node = group->levels[l].parent[node];
    }
}

/* ---- groups, and their order ---- */

static int32_t root_of(int32_t *parent, int32_t p) {
    while (parent[p] != p) p = parent[p] = parent[parent[p]];
    return p;
}

/* Levels without order: the parameters of each group, in the order of the space. */
static tg_status find_groups(tg_cspace *space, tg_error *err) {
    const size_t P = (size_t)space->P;
    int32_t *parent = malloc((P + 1) * sizeof *parent), *group = malloc((P + 1) * sizeof *group);
    space->groups = calloc(P + 1, sizeof *space->groups);
    tg_status status = parent != NULL && group != NULL && space->groups != NULL
                           ? TG_OK
                           : tg_fail(err, TG_E_MEMORY, "no memory for a space");
    for (int32_t p = 0; status == TG_OK && p < space->P; p++) parent[p] = p, group[p] = -1;
    for (int32_t t = 0; status == TG_OK && t < space->n_tests; t++)
        for (int32_t i = 1; i < space->tests[t].n_reads; i++) {
            const int32_t a = root_of(parent, space->tests[t].reads[0]);
            parent[root_of(parent, space->tests[t].reads[i])] = a;
        }
    for (int32_t p = 0; status == TG_OK && p < space->P; p++) {
        const int32_t root = root_of(parent, p);
        if (group[root] < 0) group[root] = space->n_groups++;
        space->groups[group[root]].m++;
    }
    for (int32_t g = 0; status == TG_OK && g < space->n_groups; g++) {
        space->groups[g].levels = calloc((size_t)space->groups[g].m, sizeof(tg_cspace_level));
        if (space->groups[g].levels == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for a space");
        space->groups[g].m = 0;
    }
    for (int32_t p = 0; status == TG_OK && p < space->P; p++) {
        tg_cspace_group *to = &space->groups[group[root_of(parent, p)]];
        to->levels[to->m++].param = p;
    }
    free(parent);
    free(group);
    return status;
}

/* How often each test waits for a parameter that has no level yet. */
typedef struct orders {
    int32_t *waits; /* (n_tests,) */
    int32_t **of;   /* tests that read a parameter */
    int32_t *n_of;  /* (P,) */
    int32_t *block;
} orders;

static void close_orders(orders *o) {
    free(o->waits);
    free(o->of);
    free(o->n_of);
    free(o->block);
}

static tg_status open_orders(orders *o, const tg_cspace *space, tg_error *err) {
    size_t reads = 0;
    for (int32_t t = 0; t < space->n_tests; t++) reads += (size_t)space->tests[t].n_reads;
    *o = (orders){malloc(((size_t)space->n_tests + 1) * sizeof(int32_t)),
                  malloc(((size_t)space->P + 1) * sizeof(int32_t *)),
                  calloc((size_t)space->P + 1, sizeof(int32_t)), malloc((reads + 1) * sizeof(int32_t))};
    if (o->waits == NULL || o->of == NULL || o->n_of == NULL || o->block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a space");
    for (int32_t t = 0; t < space->n_tests; t++) {
        o->waits[t] = space->tests[t].n_reads;
        for (int32_t i = 0; i < space->tests[t].n_reads; i++) o->n_of[space->tests[t].reads[i]]++;
    }
    int32_t *at = o->block;
    for (int32_t p = 0; p < space->P; p++) {
        o->of[p] = at;
        at += o->n_of[p];
        o->n_of[p] = 0;
    }
    for (int32_t t = 0; t < space->n_tests; t++)
        for (int32_t i = 0; i < space->tests[t].n_reads; i++) {
            const int32_t p = space->tests[t].reads[i];
            o->of[p][o->n_of[p]++] = t;
        }
    return TG_OK;
}

/* Few values first, and those that complete tests: so a tree stays small. */
static double cost_of(const orders *o, const tg_cspace *space, int32_t p) {
    double cost = space->params[p].n;
    for (int32_t i = 0; i < o->n_of[p]; i++) cost *= o->waits[o->of[p][i]] == 1 ? 0.25 : 0.95;
    return cost;
}

static tg_status order_group(orders *o, tg_cspace *space, tg_cspace_group *group, tg_error *err) {
    for (int32_t l = 0; l < group->m; l++) {
        int32_t best = l;
        double least = cost_of(o, space, group->levels[l].param);
        for (int32_t i = l + 1; i < group->m; i++) {
            const double cost = cost_of(o, space, group->levels[i].param);
            if (cost < least) least = cost, best = i;
        }
        const int32_t p = group->levels[best].param;
        for (; best > l; best--) group->levels[best].param = group->levels[best - 1].param;
        tg_cspace_level *level = &group->levels[l];
        level->param = p;
        level->tests = malloc(((size_t)o->n_of[p] + 1) * sizeof *level->tests);
        if (level->tests == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a space");
        for (int32_t i = 0; i < o->n_of[p]; i++)
            if (--o->waits[o->of[p][i]] == 0) level->tests[level->n_tests++] = o->of[p][i];
    }
    return TG_OK;
}

/* ---- trees ---- */

typedef struct planter {
    tg_cspace *space;
    tg_cspace_group *group;
    tg_cspace_point point;
    int64_t nodes, budget, checks, room;
    tg_cancel *cancel;
    tg_error *err;
} planter;

static tg_status add_node(planter *w, tg_cspace_level *level, int32_t code, int64_t parent) {
    if (level->nodes == w->room) {
        w->room = 2 * w->room + 256;
        int32_t *codes = realloc(level->code, (size_t)w->room * sizeof *codes);
        if (codes != NULL) level->code = codes;
        int32_t *parents = realloc(level->parent, (size_t)w->room * sizeof *parents);
        if (parents != NULL) level->parent = parents;
        if (codes == NULL || parents == NULL) return tg_fail(w->err, TG_E_MEMORY, "no memory for a tree");
    }
    level->code[level->nodes] = code;
    level->parent[level->nodes++] = (int32_t)parent;
    return TG_OK;
}

/* The level below the tree: *fits is 0 if it is over the budget. */
static tg_status grow(planter *w, tg_cspace_level *level, int *fits) {
    tg_cspace_group *group = w->group;
    const tg_axis *param = &w->space->params[level->param];
    int64_t cost = 0;
    tg_status status = TG_OK;
    w->room = 0;
    for (int32_t i = 0; i < level->n_tests; i++) cost += w->space->tests[level->tests[i]].called ? CALL : 1;
    for (int64_t node = 0; status == TG_OK && node < group->nodes; node++) {
        tg_cspace_set_node(w->space, group, node, &w->point);
        for (int32_t code = 0; status == TG_OK && code < param->n; code++) {
            w->checks += cost;
            *fits = w->nodes + level->nodes < w->budget && w->checks <= CHECKS;
            if (!*fits) return TG_OK;
            tg_cspace_set(w->space, &w->point, level->param, code);
            const int32_t fails = tg_cspace_fails(w->space, level, &w->point, w->err);
            if (fails == -1) status = add_node(w, level, code, node);
            else if (fails == -2) status = w->err->code;
            else w->space->tests[level->tests[fails]].removed++;
            if ((code & 255) == 255 && tg_cancelled(w->cancel))
                status = tg_fail(w->err, TG_E_CANCELLED, "stopped");
        }
        if ((node & 63) == 63 && status == TG_OK && tg_cancelled(w->cancel))
            status = tg_fail(w->err, TG_E_CANCELLED, "stopped");
    }
    return status;
}

static void drop_level(tg_cspace_level *level) {
    free(level->code);
    free(level->parent);
    level->code = level->parent = NULL;
    level->nodes = 0;
}

/* The constraints that left nothing, and how many choices each removed. */
static tg_status nothing_left(const planter *w, const tg_cspace_level *last) {
    char words[512] = "";
    size_t used = 0;
    for (int32_t i = 0; i < last->n_tests && used + 1 < sizeof words; i++) {
        const tg_cspace_test *test = &w->space->tests[last->tests[i]];
        if (test->removed == 0) continue;
        const int n =
            snprintf(words + used, sizeof words - used, "%s'%.120s' forbids %lld", used > 0 ? ", " : "",
                     w->space->given[test->of].name, (long long)test->removed);
        used += n > 0 ? (size_t)n : 0;
    }
    tg_fail(w->err, TG_E_CONFIG,
            "constraints: no config meets all of them; of the %lld choices that the others leave, %s; add "
            "values or "
            "relax a constraint",
            (long long)(w->group->nodes * w->space->params[last->param].n), words);
    if (w->err != NULL) tg_error_printable(w->err);
    return TG_E_CONFIG;
}

/* The tree of a group, as deep as the budget allows. */
static tg_status plant(planter *w) {
    tg_cspace_group *group = w->group;
    int32_t last = -1; /* level with tests */
    int fits = 1;
    tg_status status = TG_OK;
    group->nodes = 1, group->rest = 1;
    w->nodes = w->checks = 0;
    for (int32_t l = 0; l < group->m; l++)
        if (group->levels[l].n_tests > 0) last = l;
    for (int32_t l = 0; l <= last; l++) {
        tg_cspace_level *level = &group->levels[l];
        status = grow(w, level, &fits);
        if (status != TG_OK) return status;
        if (!fits) {
            drop_level(level);
            break;
        }
        if (level->nodes == 0) return nothing_left(w, level);
        group->depth = l + 1;
        group->nodes = level->nodes;
        w->nodes += level->nodes;
    }
    group->whole = group->depth == last + 1;
    while (group->depth > 0 &&
           group->levels[group->depth - 1].n_tests == 0) { /* which the rest does as well */
        drop_level(&group->levels[--group->depth]);
        group->nodes = group->depth > 0 ? group->levels[group->depth - 1].nodes : 1;
    }
    group->count = group->nodes;
    for (int32_t l = group->depth; l < group->m; l++) {
        const int32_t n = w->space->params[group->levels[l].param].n;
        group->rest *= n;
        if (__builtin_mul_overflow(group->count, n, &group->count)) group->whole = 0, group->count = 1;
    }
    return TG_OK;
}

/* Tests that read no parameter: if one fails, nothing is feasible. */
static tg_status check_constant(const tg_cspace *space, const tg_cspace_point *point, tg_error *err) {
    for (int32_t t = 0; t < space->n_tests; t++) {
        if (space->tests[t].n_reads > 0) continue;
        const int holds = tg_cspace_holds(space, &space->tests[t], point, err);
        if (holds < 0) return err->code;
        if (holds) continue;
        tg_fail(err, TG_E_CONFIG, "constraint '%.300s': it reads no parameter, and never holds",
                space->given[space->tests[t].of].name);
        tg_error_printable(err);
        return TG_E_CONFIG;
    }
    return TG_OK;
}

tg_status tg_cspace_plant(tg_cspace *space, int64_t budget, tg_cancel *cancel, tg_error *err) {
    planter w = {.space = space, .budget = budget, .cancel = cancel, .err = err};
    orders o = {0};
    tg_status status = find_groups(space, err);
    if (status == TG_OK) status = open_orders(&o, space, err);
    for (int32_t g = 0; status == TG_OK && g < space->n_groups; g++)
        status = order_group(&o, space, &space->groups[g], err);
    close_orders(&o);
    if (!tg_cspace_point_open(&w.point, space) && status == TG_OK)
        status = tg_fail(err, TG_E_MEMORY, "no memory for a space");
    if (status == TG_OK) status = check_constant(space, &w.point, err);
    for (int32_t g = 0; status == TG_OK && g < space->n_groups; g++) {
        w.group = &space->groups[g];
        status = plant(&w);
    }
    tg_cspace_point_free(&w.point);
    return status;
}
