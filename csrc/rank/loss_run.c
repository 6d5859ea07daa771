#include "rank/loss.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/parallel.h"
#include "base/rng.h"

/* All lists, one after the other: E entries. */
typedef struct batch {
    int64_t count, E;
    const int64_t *offsets; /* (count + 1) */
    const float *scores;    /* (E,) all of these */
    const int64_t *order;
    const double *value;
    const float *weight;
    const double *time;
    uint64_t key;
    int64_t first;
} batch;

/* Memory of a run; what is not needed is NULL. */
typedef struct room {
    float *scores, *weight, *gradient, *term; /* (E,) */
    int64_t *order;
    double *value, *time;
    double *values; /* (count,) of the lists */
    char *scratch;  /* (threads, bytes) */
} room;

typedef struct sizes {
    int gathered;   /* the entries are not those of the caller's arrays, in their order */
    int threads;    /* scratch exists for this many */
    size_t scratch; /* of any term, one thread */
} sizes;

static room carve(tg_scratch *c, const tg_losses *losses, const batch *b, unsigned need, int weighted,
                  sizes s) {
    room r = {0};
    if (s.gathered) {
        r.scores = tg_take(c, b->E, sizeof *r.scores);
        r.gradient = tg_take(c, b->E, sizeof *r.gradient);
        if (weighted) r.weight = tg_take(c, b->E, sizeof *r.weight);
        if (need & TG_NEED_ORDER) r.order = tg_take(c, b->E, sizeof *r.order);
        if (need & TG_NEED_VALUE) r.value = tg_take(c, b->E, sizeof *r.value);
        if (need & TG_NEED_TIME) r.time = tg_take(c, b->E, sizeof *r.time);
    }
    if (losses->n > 1) r.term = tg_take(c, b->E, sizeof *r.term);
    r.values = tg_take(c, b->count, sizeof *r.values);
    r.scratch = tg_take(c, s.threads, s.scratch);
    return r;
}

/* ---- checks ---- */

/* Fills the longest list's length. Offsets are checked before anything is read through them. */
static tg_status check_offsets(const tg_lists *lists, int64_t L, int64_t *longest, tg_error *err) {
    const int64_t *offsets = lists->offsets;
    *longest = 0;
    for (int64_t list = 0; list < lists->count; list++) {
        const int64_t start = offsets[list], end = offsets[list + 1];
        if (start < 0 || end < start || (list == 0 && start != 0))
            return tg_fail(err, TG_E_SHAPE,
                           "offsets: list %lld is [%lld, %lld); offsets start at 0 and never fall",
                           (long long)list, (long long)start, (long long)end);
        if (end - start > *longest) *longest = end - start;
    }
    const int64_t entries = lists->count > 0 ? offsets[lists->count] : 0;
    if (lists->index == NULL ? entries != L : entries > L)
        return tg_fail(err, TG_E_SHAPE,
                       "offsets: expected to run from 0 to %lld (the number of scores), found %lld",
                       (long long)L, (long long)entries);
    if (entries > INT32_MAX / 2)
        return tg_fail(err, TG_E_SHAPE, "offsets: %lld entries are more than a loss takes",
                       (long long)entries);
    return TG_OK;
}

static int64_t list_of(const tg_lists *lists, int64_t at) {
    int64_t list = 0;
    while (lists->offsets[list + 1] <= at) list++;
    return list;
}

static tg_status check_index(const tg_lists *lists, int64_t E, int64_t L, tg_error *err) {
    if (lists->index == NULL) return TG_OK;
    unsigned char *seen = calloc((size_t)L + 1, 1);
    if (seen == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld entries", (long long)L);
    tg_status status = TG_OK;
    for (int64_t at = 0; at < E && status == TG_OK; at++) {
        const int64_t i = lists->index[at];
        if (i < 0 || i >= L)
            status = tg_fail_field(err, "index", "positions of scores",
                                   "%lld at place %lld (list %lld) for %lld score%s", (long long)i,
                                   (long long)at, (long long)list_of(lists, at), (long long)L, TG_S(L));
        else if (seen[i])
            status = tg_fail_field(err, "index", "every position at most once",
                                   "%lld again at place %lld (list %lld)", (long long)i, (long long)at,
                                   (long long)list_of(lists, at));
        else seen[i] = 1;
    }
    free(seen);
    return status;
}

static int64_t position(const tg_lists *lists, int64_t at) {
    return lists->index == NULL ? at : lists->index[at];
}

static tg_status not_so(tg_error *err, const char *field, const char *expected, double found,
                        const tg_lists *lists, int64_t at) {
    return tg_fail_field(err, field, expected, "%g at index %lld (list %lld)", found,
                         (long long)position(lists, at), (long long)list_of(lists, at));
}

/* Whether x (L,) or NULL is finite and at least `least` at all entries of lists. */
static tg_status check_floats(const char *field, const char *expected, const float *x, float least, int64_t E,
                              const tg_lists *lists, tg_error *err) {
    int broken = 0;
    if (x == NULL) return TG_OK;
    if (lists->index == NULL)
        for (int64_t at = 0; at < E; at++) broken |= !(x[at] >= least && x[at] <= FLT_MAX);
    else
        for (int64_t at = 0; at < E; at++)
            broken |= !(x[lists->index[at]] >= least && x[lists->index[at]] <= FLT_MAX);
    for (int64_t at = 0; broken && at < E; at++) {
        const float found = x[position(lists, at)];
        if (!(found >= least && found <= FLT_MAX))
            return not_so(err, field, expected, (double)found, lists, at);
    }
    return TG_OK;
}

/* Scores that are not finite come of weights that diverged, not of data: they have a status of their own. */
static tg_status check_scores(const float *scores, int64_t E, const tg_lists *lists, tg_error *err) {
    if (check_floats("scores", "finite numbers", scores, -FLT_MAX, E, lists, err) == TG_OK) return TG_OK;
    if (err != NULL) err->code = TG_E_NOT_FINITE;
    return TG_E_NOT_FINITE;
}

static tg_status check_values(const tg_losses *losses, const double *value, int64_t E, const tg_lists *lists,
                              tg_error *err) {
    double above = -INFINITY;
    const char *name = "", *shares = NULL;
    for (int t = 0; t < losses->n; t++) {
        const tg_reads reads = losses->term[t].loss->reads(losses->term[t].attr);
        if ((reads.targets & TG_NEED_VALUE) == 0) continue;
        if (reads.shares) shares = losses->term[t].loss->name;
        if (reads.above <= above) continue;
        above = reads.above;
        name = losses->term[t].loss->name;
    }
    for (int64_t at = 0; at < E; at++) {
        const double found = value[position(lists, at)];
        const int apart = shares != NULL && !(found >= 0 && found <= 1);
        if (isfinite(found) && found > above && !apart) continue;
        char expected[96] = "finite numbers";
        if (apart) snprintf(expected, sizeof expected, "finite numbers from 0 to 1 (%s)", shares);
        else if (isfinite(above))
            snprintf(expected, sizeof expected, "finite numbers above %g (%s)", above, name);
        return not_so(err, "values", expected, found, lists, at);
    }
    return TG_OK;
}

static tg_status check(const tg_losses *losses, int64_t E, const float *scores, const tg_targets *targets,
                       const tg_lists *lists, tg_error *err) {
    const unsigned need = tg_losses_need(losses);
    if (losses->n < 1) return tg_fail(err, TG_E_CONFIG, "loss: a sum has at least one term");
    for (int t = 0; t < losses->n; t++) {
        const tg_loss_term *term = &losses->term[t];
        const unsigned reads = term->loss->reads(term->attr).targets;
        const char *lacks = reads & TG_NEED_ORDER && targets->order == NULL   ? "runtimes"
                            : reads & TG_NEED_VALUE && targets->value == NULL ? "values"
                            : reads & TG_NEED_TIME && targets->time == NULL   ? "times"
                                                                              : NULL;
        if (lacks != NULL)
            return tg_fail(err, TG_E_CONFIG, "%s reads %s, and there are none", term->loss->name, lacks);
    }
    tg_status status = check_scores(scores, E, lists, err);
    if (status == TG_OK)
        status = check_floats("scale", "finite numbers", lists->scale, -FLT_MAX, E, lists, err);
    if (status == TG_OK)
        status = check_floats("shift", "finite numbers", lists->shift, -FLT_MAX, E, lists, err);
    if (status == TG_OK)
        status = check_floats("weights", "finite numbers >= 0", targets->weight, 0, E, lists, err);
    if (status == TG_OK && need & TG_NEED_VALUE) status = check_values(losses, targets->value, E, lists, err);
    return status;
}

/* ---- the run ---- */

/* Copies what the lists refer to, one list after the other; *b then reads the copies. */
static tg_status gather(batch *b, const tg_lists *lists, const room *r, tg_error *err) {
    for (int64_t at = 0; at < b->E; at++) {
        const int64_t i = position(lists, at);
        double seen = (double)b->scores[i];
        if (lists->scale != NULL) seen *= (double)lists->scale[i];
        if (lists->shift != NULL) seen += (double)lists->shift[i];
        if (!(fabs(seen) <= (double)FLT_MAX))
            return not_so(err, "scores", "scale * score + shift in the range of float32", seen, lists, at);
        r->scores[at] = (float)seen;
        if (r->order != NULL) r->order[at] = b->order[i];
        if (r->value != NULL) r->value[at] = b->value[i];
        if (r->weight != NULL) r->weight[at] = b->weight[i];
        if (r->time != NULL) r->time[at] = b->time[i];
    }
    b->scores = r->scores;
    b->order = r->order;
    b->value = r->value;
    b->weight = r->weight;
    b->time = r->time;
    return TG_OK;
}

/* dscores (L,) from the gradient (E,) of what the losses saw. */
static void scatter(const batch *b, int64_t L, const tg_lists *lists, const float *gradient, float *dscores) {
    memset(dscores, 0, (size_t)L * sizeof *dscores);
    for (int64_t at = 0; at < b->E; at++) {
        const int64_t i = position(lists, at);
        dscores[i] = lists->scale == NULL ? gradient[at] : gradient[at] * lists->scale[i];
    }
}

static double run_list(const tg_loss_term *term, const batch *b, int64_t number, double share,
                       float *gradient, char *scratch) {
    const int64_t start = b->offsets[number];
    const unsigned reads = term->loss->reads(term->attr).targets;
    const tg_list list = {.length = b->offsets[number + 1] - start,
                          .scores = b->scores + start,
                          .order = reads & TG_NEED_ORDER ? b->order + start : NULL,
                          .value = reads & TG_NEED_VALUE ? b->value + start : NULL,
                          .weight = b->weight == NULL ? NULL : b->weight + start,
                          .attr = term->attr,
                          .reduction = term->reduction,
                          .share = share,
                          .key = tg_key(b->key, (uint64_t)(b->first + number)),
                          .gradient = gradient + start,
                          .scratch = scratch};
    TG_ASSERT(term->own == NULL && isfinite(share) && (term->loss->reductions >> term->reduction & 1));
    if (list.length < term->loss->least) {
        memset(list.gradient, 0, (size_t)list.length * sizeof *list.gradient);
        return 0;
    }
    const double value = term->loss->run(&list);
    tg_scratch done = {.base = scratch, .closing = term->loss->name};
    if (TG_REDZONE > 0) term->loss->carve(&done, list.length);
    return value;
}

/* Threads that share out the lists; one list may use them all by itself. */
static int threads_for(const tg_loss_term *term, const batch *b) {
    double work = 0;
    if (b->count < 2 || term->over_batch || term->own != NULL) return 1;
    for (int64_t list = 0; list < b->count; list++) {
        tg_scratch c = {0};
        work += term->loss->carve(&c, b->offsets[list + 1] - b->offsets[list]);
    }
    const int threads = tg_threads(work);
    return threads < b->count ? threads : (int)b->count;
}

/* Value of a loss of the caller's own; fills gradient (E,). */
static tg_status run_own(const tg_loss_term *term, const batch *b, float *gradient, double *value,
                         tg_error *err) {
    const tg_own_lists lists = {
        .count = b->count, .E = b->E, .offsets = b->offsets, .scores = b->scores, .time = b->time};
    const tg_status status = term->own(term->context, &lists, gradient, value, err);
    if (status != TG_OK) return status;
    *value *= term->weight;
    for (int64_t at = 0; at < b->E; at++) gradient[at] = (float)(term->weight * (double)gradient[at]);
    return TG_OK;
}

/* Value of one term; fills gradient (E,). */
static double run_term(const tg_loss_term *term, batch b, sizes s, const room *r, float *gradient) {
    const int64_t together[2] = {0, b.E};
    const int wanted = threads_for(term, &b), threads = wanted < s.threads ? wanted : s.threads;
    if (term->over_batch) b.count = 1, b.offsets = together;
    const double share = 1 / (double)b.count;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int thread = 0; thread < threads; thread++)
        for (int64_t list = thread; list < b.count; list += threads)
            r->values[list] = run_list(term, &b, list, term->weight * share, gradient,
                                       r->scratch + s.scratch * (size_t)thread);
    double sum = 0;
    for (int64_t list = 0; list < b.count; list++) sum += r->values[list];
    return term->weight * (sum * share);
}

static sizes measure(const tg_losses *losses, const batch *b, const tg_lists *lists, int64_t longest) {
    sizes s = {.gathered = lists->index != NULL || lists->scale != NULL || lists->shift != NULL,
               .threads = 1};
    for (int t = 0; t < losses->n; t++) {
        const tg_loss_term *term = &losses->term[t];
        tg_scratch c = {0};
        term->loss->carve(&c, term->over_batch ? b->E : longest);
        const int threads = threads_for(term, b);
        if (c.used > s.scratch) s.scratch = c.used;
        if (threads > s.threads) s.threads = threads;
    }
    return s;
}

static tg_status run_in(const room *r, batch b, sizes s, const tg_losses *losses, int64_t L,
                        const tg_lists *lists, float *dscores, double *value, tg_error *err) {
    const tg_status status = s.gathered ? gather(&b, lists, r, err) : TG_OK;
    if (status != TG_OK) return status;
    float *gradient = s.gathered ? r->gradient : dscores;
    for (int t = 0; t < losses->n; t++) {
        const tg_loss_term *term = &losses->term[t];
        float *to = t == 0 ? gradient : r->term;
        double found = 0;
        const tg_status own = term->own != NULL ? run_own(term, &b, to, &found, err) : TG_OK;
        if (own != TG_OK) return own;
        *value += term->own != NULL ? found : run_term(term, b, s, r, to);
        for (int64_t at = 0; t > 0 && at < b.E; at++) gradient[at] += r->term[at];
    }
    if (s.gathered) scatter(&b, L, lists, gradient, dscores);
    return TG_OK;
}

tg_status tg_losses_run(const tg_losses *losses, int64_t L, const float *scores, const tg_targets *targets,
                        const tg_lists *lists, float *dscores, double *value, tg_error *err) {
    int64_t longest;
    *value = 0;
    tg_status status = check_offsets(lists, L, &longest, err);
    if (status != TG_OK) return status;
    const batch b = {.count = lists->count,
                     .E = lists->count > 0 ? lists->offsets[lists->count] : 0,
                     .offsets = lists->offsets,
                     .scores = scores,
                     .order = targets->order,
                     .value = targets->value,
                     .weight = targets->weight,
                     .time = targets->time,
                     .key = losses->key,
                     .first = lists->first};
    status = check_index(lists, b.E, L, err);
    if (status == TG_OK) status = check(losses, b.E, scores, targets, lists, err);
    if (status != TG_OK) return status;
    if (b.count == 0) {
        memset(dscores, 0, (size_t)L * sizeof *dscores);
        return TG_OK;
    }
    const sizes s = measure(losses, &b, lists, longest);
    const unsigned need = tg_losses_need(losses);
    tg_scratch wanted = {0};
    carve(&wanted, losses, &b, need, targets->weight != NULL, s);
    char *block = malloc(wanted.used);
    if (block == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for the loss of lists of up to %lld entries",
                       (long long)longest);
    tg_scratch given = {.base = block}, done = {.base = block, .closing = "the losses of a batch"};
    const room r = carve(&given, losses, &b, need, targets->weight != NULL, s);
    TG_ASSERT(given.used == wanted.used);
    status = run_in(&r, b, s, losses, L, lists, dscores, value, err);
    if (TG_REDZONE > 0) carve(&done, losses, &b, need, targets->weight != NULL, s);
    free(block);
    return status;
}
