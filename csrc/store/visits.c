#include "store/visits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "configs/sample.h"
#include "rank/sort.h"

enum { ORDER = 1, ROWS = 2, CLOSE = 6, FAST = 8 }; /* streams, as tpugraphs/kernels/streams.py numbers them */
enum { WINDOWS = 4 };                              /* of close runtimes: at most so many slates long */
#define RESOLUTION (INT64_C(1) << 53)              /* of random numbers */
#define MOST       (INT64_C(1) << 40)              /* configs of a graph */
#define MOST_DRAWN 0x1000000                       /* configs of a slate */

/* The key of a stream, to be continued by labels. */
static uint64_t stem(const tg_visits *v, uint64_t stream) { return tg_key(tg_key(0, v->how.seed), stream); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- graphs ---- */

/* Of a graph of c configs sqrt(c c_max) in an epoch, cut into slates. */
static void make_sqrt(tg_visits *v, const int64_t *counts, int64_t most) {
    const int64_t size = v->how.configs;
    for (int64_t i = 0; i < v->n; i++) {
        v->draws[i] = (int64_t)sqrt((double)counts[i] * (double)most);
        v->slates[i] = (i > 0 ? v->slates[i - 1] : 0) + (v->draws[i] + size - 1) / size;
    }
    const int64_t all = v->slates[v->n - 1], whole = all / v->how.each * v->how.each;
    v->epoch = v->period = whole > 0 ? whole : all;
}

/* Shares of the n visits of an epoch, by whole slates; a graph with fewer configs has one. */
static void make_slates(tg_visits *v, const int64_t *counts) {
    int64_t total = 0, fewest = INT64_MAX, last = 0;
    for (int64_t i = 0; i < v->n; i++) {
        if (counts[i] == 0) continue;
        const int64_t weight = counts[i] < v->how.configs ? 1 : counts[i] / v->how.configs;
        total += weight;
        fewest = least(fewest, weight);
        last = i;
    }
    double sum = 0;
    for (int64_t i = 0; i < v->n; i++) {
        if (counts[i] > 0) sum += counts[i] < v->how.configs ? 1 : (double)(counts[i] / v->how.configs);
        v->ends[i + 1] = i < last ? sum / (double)total * (double)v->n : (double)v->n;
    }
    v->period = (total + fewest - 1) / fewest;
}

tg_status tg_visits_make(tg_visits *v, const tg_visiting *how, const int64_t *counts, int64_t n,
                         tg_error *err) {
    int64_t most = 0;
    *v = (tg_visits){.how = *how, .n = n, .epoch = n, .period = n, .turned = -1};
    if (how->configs < 1 || how->configs > MOST_DRAWN || how->each < 1 ||
        !(how->close >= 0 && how->close <= 1) || !(how->temperature > 0))
        return tg_fail(
            err, TG_E_CONFIG,
            "visits: expected 1 to 2^24 configs, at least 1 slate, a chance of close runtimes in 0..1 "
            "and a temperature above 0");
    if (n < 1 || n > 1 << 20)
        return tg_fail(err, TG_E_CONFIG, "counts: expected 1 to 2^20 graphs, got %lld", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (counts[i] < 0 || counts[i] > MOST)
            return tg_fail(err, TG_E_CONFIG, "counts: expected 0 to 2^40 configs of graph %lld, got %lld",
                           (long long)i, (long long)counts[i]);
        most = counts[i] > most ? counts[i] : most;
    }
    if (most == 0) v->how.graphs = TG_GRAPHS_EVEN;
    int64_t *block = calloc((size_t)(4 * n), sizeof *block);
    v->ends = calloc((size_t)n + 1, sizeof *v->ends);
    v->before = v->draws = block;
    if (block == NULL || v->ends == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for visits of %lld graphs", (long long)n);
    v->order = v->slates = block + n;
    v->times = block + 2 * n;
    v->spare = block + 3 * n;
    if (v->how.graphs == TG_GRAPHS_SQRT) make_sqrt(v, counts, most);
    if (v->how.graphs == TG_GRAPHS_SLATES) make_slates(v, counts);
    return TG_OK;
}

void tg_visits_free(tg_visits *v) {
    free(v->before);
    free(v->ends);
    v->before = NULL;
    v->ends = NULL;
}

/* Visits to graph i in an epoch of that random start: its share, rounded down or up (Madow 1949). */
static int64_t visits_in(const tg_visits *v, int64_t i, double start) {
    return (int64_t)floor(v->ends[i + 1] + start) - (int64_t)floor(v->ends[i] + start);
}

static double start_of(const tg_visits *v, int64_t epoch) {
    return tg_uniform(tg_key(stem(v, ORDER), (uint64_t)epoch), 0);
}

/* Make `order` and `times` those of an epoch. */
static tg_status turn_to(tg_visits *v, int64_t epoch, tg_cancel *cancel, tg_error *err) {
    if (epoch < v->now) {
        memset(v->before, 0, (size_t)v->n * sizeof *v->before);
        v->now = 0;
    }
    for (; v->now < epoch; v->now++) {
        if (tg_cancelled(cancel)) return tg_fail(err, TG_E_CANCELLED, "cancelled");
        const double start = start_of(v, v->now);
        for (int64_t i = 0; i < v->n; i++) v->before[i] += visits_in(v, i, start);
    }
    v->turned = -1;
    const double start = start_of(v, epoch);
    int64_t place = 0;
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t k = visits_in(v, i, start); k > 0 && place < v->n; k--) v->spare[place++] = i;
    const uint64_t key = tg_key(tg_key(stem(v, ORDER), (uint64_t)epoch), 1);
    const tg_status status = tg_sample(v->times, v->n, v->n, key, 0, cancel, err);
    if (status != TG_OK) return status;
    for (int64_t p = 0; p < v->n; p++) v->order[p] = v->spare[v->times[p]];
    memcpy(v->spare, v->before, (size_t)v->n * sizeof *v->spare);
    for (int64_t p = 0; p < v->n; p++) v->times[p] = v->spare[v->order[p]]++;
    v->turned = epoch;
    return TG_OK;
}

/* The graph that has a slate of an epoch: the first whose slates end behind it. */
static int64_t graph_of(const tg_visits *v, int64_t slate) {
    int64_t low = 0, high = v->n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (v->slates[middle] > slate) high = middle;
        else low = middle + 1;
    }
    return low;
}

static int64_t slates_before(const tg_visits *v, int64_t graph) {
    return graph > 0 ? v->slates[graph - 1] : 0;
}

tg_status tg_visits_at(tg_visits *v, int64_t visit, int64_t *graph, int64_t *before, tg_cancel *cancel,
                       tg_error *err) {
    if (visit < 0 || visit > MOST * 1024)
        return tg_fail(err, TG_E_CONFIG, "visit: expected 0 to 2^50, got %lld", (long long)visit);
    const int64_t epoch = visit / v->epoch, place = visit % v->epoch;
    tg_status status = TG_OK;
    if (v->how.graphs == TG_GRAPHS_EVEN) {
        *before = epoch;
        return tg_sample_epoch(graph, v->n, 1, stem(v, ORDER), visit, cancel, err);
    }
    if (v->how.graphs == TG_GRAPHS_SLATES) {
        if (epoch != v->turned) status = turn_to(v, epoch, cancel, err);
        if (status != TG_OK) return status;
        *graph = v->order[place];
        *before = v->times[place];
        return TG_OK;
    }
    const int64_t all = v->slates[v->n - 1];
    int64_t slate;
    status = tg_sample_epoch(&slate, all, 1, tg_key(stem(v, ORDER), 0), epoch * all + place, cancel, err);
    if (status != TG_OK) return status;
    *graph = graph_of(v, slate);
    const int64_t first = slates_before(v, *graph);
    *before = epoch * (v->slates[*graph] - first) + slate - first;
    return TG_OK;
}

/* ---- configs ---- */

/* What a visit counts as in the keys of its configs. */
static uint64_t number(int64_t visit) { return (uint64_t)visit + 1; }

static int is_close(const tg_visits *v, int64_t visit) {
    const uint64_t key = tg_key(tg_key(stem(v, CLOSE), number(visit)), 0);
    return v->how.close > 0 && tg_uniform(key, 0) < v->how.close;
}

int64_t tg_visits_size(const tg_visits *v, int64_t visit, int64_t count, int *ordered) {
    const int close = is_close(v, visit);
    *ordered = close || v->how.sampling == TG_CONFIGS_GUMBEL;
    const int full = v->how.sampling == TG_CONFIGS_REPLACED || v->how.graphs == TG_GRAPHS_SQRT;
    return full && !*ordered ? v->how.configs : least(v->how.configs, count);
}

/* Any of a window of configs with close runtimes, 1 to 4 slates long: an option of the first place. */
static tg_status close_rows(const int64_t *fastest, int64_t count, uint64_t key, int64_t k, int64_t *rows,
                            tg_cancel *cancel, tg_error *err) {
    const int64_t window = least(count, k * (1 + (int64_t)tg_below(tg_key(key, 0), 0, WINDOWS)));
    const int64_t first = (int64_t)tg_below(tg_key(key, 1), 0, (uint64_t)(count - window + 1));
    const tg_status status = tg_sample(rows, window, k, tg_key(key, 2), 0, cancel, err);
    for (int64_t i = 0; status == TG_OK && i < k; i++) rows[i] = fastest[first + rows[i]];
    return status;
}

/* Independent draws. */
static tg_status any_rows(int64_t count, uint64_t key, int64_t k, int64_t *rows, tg_cancel *cancel,
                          tg_error *err) {
    const double share = (double)count / (double)RESOLUTION;
    const tg_status status = tg_sample(rows, RESOLUTION, k, key, 0, cancel, err);
    for (int64_t i = 0; status == TG_OK && i < k; i++)
        rows[i] = least((int64_t)((double)rows[i] * share), count - 1);
    return status;
}

/* Configs one by one without replacement, in proportion to exp((1 - place / count) / temperature), where place 0 is the
   fastest: Gumbel top-k sampling (Kool et al. 2019) by exponential clocks, of which the Gumbel noise is the logarithm.
   The first k to ring are drawn. */
static tg_status fast_rows(const int64_t *fastest, int64_t count, double temperature, uint64_t key, int64_t k,
                           int64_t *rows, tg_cancel *cancel, tg_error *err) {
    uint64_t *rings = calloc((size_t)(3 * count), sizeof *rings);
    if (rings == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)count);
    int64_t *drawn = (int64_t *)rings + count; /* until the rings are sorted */
    const tg_status status = tg_sample(drawn, RESOLUTION, count, key, 0, cancel, err);
    for (int64_t i = 0; status == TG_OK && i < count; i++) {
        const double uniform = (1.0 + (double)drawn[i]) / (double)RESOLUTION;
        rings[i] = tg_key_f64(-log(uniform) * exp((double)i / ((double)count * temperature)));
    }
    if (status == TG_OK) {
        const tg_order order = tg_sort_order(rings, count, rings + count);
        for (int64_t i = 0; i < k; i++) rows[i] = fastest[tg_order_at(&order, i)];
    }
    free(rings);
    return status;
}

/* The next of the draws of a graph in TG_GRAPHS_SQRT, whose visits are its slates; the last is filled from the first. */
static tg_status next_draws(const tg_visits *v, int64_t graph, int64_t slate, int64_t count, int64_t k,
                            int64_t *rows, tg_cancel *cancel, tg_error *err) {
    const int64_t draws = v->draws[graph], slates = v->slates[graph] - slates_before(v, graph);
    const int64_t epoch = slate / slates, first = slate % slates * v->how.configs;
    const uint64_t key = tg_key(tg_key(stem(v, ORDER), 1), (uint64_t)graph);
    for (int64_t i = 0; i < k; i++) {
        const int64_t step = (first + i) % draws + epoch * draws;
        const tg_status status = tg_sample_epoch(&rows[i], draws, 1, key, step, cancel, err);
        if (status != TG_OK) return status;
        rows[i] %= count;
    }
    return TG_OK;
}

tg_status tg_visits_rows(const tg_visits *v, int64_t visit, int64_t graph, int64_t before, int64_t count,
                         const int64_t *fastest, int64_t k, int64_t *rows, tg_cancel *cancel, tg_error *err) {
    const uint64_t visited = number(visit);
    if (is_close(v, visit))
        return close_rows(fastest, count, tg_key(tg_key(stem(v, CLOSE), visited), 1), k, rows, cancel, err);
    if (v->how.sampling == TG_CONFIGS_REPLACED)
        return any_rows(count, tg_key(stem(v, ROWS), visited), k, rows, cancel, err);
    if (v->how.sampling == TG_CONFIGS_GUMBEL)
        return fast_rows(fastest, count, v->how.temperature, tg_key(stem(v, FAST), visited), k, rows, cancel,
                         err);
    if (v->how.graphs == TG_GRAPHS_SQRT) return next_draws(v, graph, before, count, k, rows, cancel, err);
    return tg_sample_epoch(rows, count, k, tg_key(stem(v, ROWS), (uint64_t)graph), before, cancel, err);
}
