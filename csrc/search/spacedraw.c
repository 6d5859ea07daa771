#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "search/space.h"

enum {
    TRIES = 16 << 20, /* in a row without a feasible config */
    POLL = 1 << 12,
    ESTIMATE = 1 << 20, /* draws for the size of a group, at most */
    HITS = 1 << 14,     /* feasible ones among them that are enough */
    LABEL = 0x5b        /* of keys */
};

/* Choice number `rank` of a group: a node of its tree, and what follows. */
static void choose(const tg_cspace *space, const tg_cspace_group *group, int64_t rank, int32_t *code) {
    for (int32_t l = group->m - 1; l >= group->depth; l--) {
        const int32_t p = group->levels[l].param, n = space->params[p].n;
        code[p] = (int32_t)(rank % n);
        rank /= n;
    }
    for (int32_t l = group->depth - 1; l >= 0; l--) {
        code[group->levels[l].param] = group->levels[l].code[rank];
        rank = group->levels[l].parent[rank];
    }
}

void tg_cspace_unrank(const tg_cspace *space, int64_t rank, int32_t *code) {
    if (space->rows != NULL) {
        memcpy(code, space->rows + rank * space->P, (size_t)space->P * sizeof *code);
        return;
    }
    for (int32_t g = space->n_groups - 1; g >= 0; g--) {
        const tg_cspace_group *group = &space->groups[g];
        choose(space, group, rank % group->count, code);
        rank /= group->count;
    }
}

/* ---- distinct ranks ---- */

/* What stands at places of a list 0, 1, 2, ... after some were exchanged. */
typedef struct swaps {
    int64_t (*slot)[2]; /* place + 1, what stands there */
    int64_t mask;
} swaps;

static int64_t *slot_of(const swaps *s, int64_t place) {
    int64_t at = (int64_t)(tg_mix64((uint64_t)place + 1) & (uint64_t)s->mask);
    while (s->slot[at][0] != 0 && s->slot[at][0] != place + 1) at = (at + 1) & s->mask;
    return s->slot[at];
}

static int64_t stands_at(const swaps *s, int64_t place) {
    const int64_t *slot = slot_of(s, place);
    return slot[0] != 0 ? slot[1] : place;
}

/* The first n of the ranks in random order: Fisher and Yates on a list that is never written out. */
static tg_status sample_ranks(const tg_cspace *space, int64_t n, uint64_t key, int32_t *codes,
                              tg_cancel *cancel, tg_error *err) {
    int64_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    swaps s = {calloc((size_t)slots, sizeof *s.slot), slots - 1};
    if (s.slot == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    tg_status status = TG_OK;
    for (int64_t i = 0; status == TG_OK && i < n; i++) {
        const int64_t place = i + (int64_t)tg_below(key, (uint64_t)i, (uint64_t)(space->total - i));
        const int64_t rank = stands_at(&s, place), here = stands_at(&s, i);
        int64_t *slot = slot_of(&s, place);
        slot[0] = place + 1, slot[1] = here;
        tg_cspace_unrank(space, rank, codes + i * space->P);
        if ((i & (POLL - 1)) == 0 && tg_cancelled(cancel)) status = tg_fail(err, TG_E_CANCELLED, "stopped");
    }
    free(s.slot);
    return status;
}

/* ---- draws ---- */

typedef struct drawer {
    const tg_cspace *space;
    tg_cspace_point point;
    uint64_t key, counter;
    tg_cancel *cancel;
    tg_error *err;
} drawer;

static uint64_t below(drawer *d, int64_t n) { return tg_below(d->key, d->counter++, (uint64_t)n); }

/* One try of a group that is not whole: 1 feasible, 0 not, -1 an error. */
static int try_group(drawer *d, const tg_cspace_group *group) {
    tg_cspace_set_node(d->space, group, (int64_t)below(d, group->nodes), &d->point);
    for (int32_t l = group->depth; l < group->m; l++) {
        const tg_cspace_level *level = &group->levels[l];
        tg_cspace_set(d->space, &d->point, level->param, (int32_t)below(d, d->space->params[level->param].n));
        if (level->n_tests == 0) continue;
        const int32_t fails = tg_cspace_fails(d->space, level, &d->point, d->err);
        if (fails != -1) return fails == -2 ? -1 : 0;
    }
    return 1;
}

/* A feasible choice of a group. */
static tg_status draw_group(drawer *d, const tg_cspace_group *group) {
    if (group->whole) {
        choose(d->space, group, (int64_t)below(d, group->count), d->point.code);
        return TG_OK;
    }
    for (int64_t tries = 1;; tries++) {
        const int found = try_group(d, group);
        if (found != 0) return found > 0 ? TG_OK : d->err->code;
        if ((tries & (POLL - 1)) == 0 && tg_cancelled(d->cancel))
            return tg_fail(d->err, TG_E_CANCELLED, "stopped");
        if (tries == TRIES)
            return tg_fail(
                d->err, TG_E_CONFIG,
                "constraints: none of %d configs in a row meets those of '%.60s' and %d other%s; give "
                "these parameters fewer values, or write the constraints over fewer of them",
                TRIES, d->space->params[group->levels[0].param].name, group->m - 1, TG_S(group->m - 1));
    }
}

/* Draw until n are distinct, or for long nothing new comes. */
static tg_status sample_draws(drawer *d, int64_t n, int32_t *codes, int64_t *m) {
    const tg_cspace *space = d->space;
    const uint64_t key = d->key;
    tg_rowset seen;
    tg_status status = TG_OK;
    if (!tg_rowset_open(&seen, codes, space->P, n))
        status = tg_fail(d->err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
    int64_t draw = 0, vain = 0;
    for (*m = 0; status == TG_OK && *m < n && vain < 1000 + 20 * *m; draw++) {
        d->key = tg_key(key, (uint64_t)draw);
        d->counter = 0;
        for (int32_t g = 0; status == TG_OK && g < space->n_groups; g++)
            status = draw_group(d, &space->groups[g]);
        if (status != TG_OK) break;
        memcpy(codes + *m * space->P, d->point.code, (size_t)space->P * sizeof *codes);
        if (tg_rowset_add(&seen, *m)) ++*m, vain = 0;
        else vain++;
        if ((draw & (POLL - 1)) == 0 && tg_cancelled(d->cancel))
            status = tg_fail(d->err, TG_E_CANCELLED, "stopped");
    }
    tg_rowset_free(&seen);
    return status;
}

tg_status tg_cspace_sample(const tg_cspace *space, int64_t n, uint64_t seed, int32_t *codes, int64_t *m,
                           tg_cancel *cancel, tg_error *err) {
    drawer d = {.space = space, .key = tg_key(seed, LABEL), .cancel = cancel, .err = err};
    if (space->total >= 0) {
        *m = n < space->total ? n : space->total;
        return sample_ranks(space, *m, d.key, codes, cancel, err);
    }
    tg_status status = tg_cspace_point_open(&d.point, space)
                           ? sample_draws(&d, n, codes, m)
                           : tg_fail(err, TG_E_MEMORY, "no memory for a config");
    tg_cspace_point_free(&d.point);
    return status;
}

tg_status tg_cspace_estimate(const tg_cspace *space, double *size, double *error, tg_cancel *cancel,
                             tg_error *err) {
    drawer d = {.space = space, .key = tg_key(0, LABEL + 1), .cancel = cancel, .err = err};
    tg_status status =
        tg_cspace_point_open(&d.point, space) ? TG_OK : tg_fail(err, TG_E_MEMORY, "no memory for a config");
    double variance = 0; /* relative */
    *size = space->rows != NULL ? (double)space->n_rows : 1;
    for (int32_t g = 0; status == TG_OK && g < space->n_groups; g++) {
        const tg_cspace_group *group = &space->groups[g];
        int64_t hits = 0, tries = 0;
        if (group->whole) {
            *size *= (double)group->count;
            continue;
        }
        for (; status == TG_OK && tries < ESTIMATE && hits < HITS; tries++) {
            const int found = try_group(&d, group);
            hits += found > 0;
            if (found < 0) status = err->code;
            else if ((tries & (POLL - 1)) == 0 && tg_cancelled(cancel))
                status = tg_fail(err, TG_E_CANCELLED, "stopped");
        }
        /* The last of enough hits is no draw like the others; of none, one is about the most there could be. */
        const double share =
            hits == HITS ? (HITS - 1.0) / ((double)tries - 1) : (hits > 0 ? (double)hits : 1) / ESTIMATE;
        *size *= (double)group->nodes * group->rest * share;
        variance += (1 - share) / (share * (double)tries);
    }
    *error = *size * sqrt(variance);
    tg_cspace_point_free(&d.point);
    return status;
}
