#include "store/segments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { SEGMENTS = 9 }; /* the stream, as tpugraphs/kernels/streams.py numbers it */

/* ---- the scores of one graph ---- */

static void free_stored(tg_stored *t) {
    free(t->configs);
    free(t->rows);
    free(t->scores);
}

/* The place of a config, or where it belongs. */
static int64_t place_of(const tg_stored *t, int64_t config) {
    int64_t low = 0, high = t->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (t->configs[middle] < config) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The scores (count) of a config; NULL if there are none. */
static float *scores_of(const tg_stored *t, int64_t config) {
    const int64_t at = place_of(t, config);
    return at < t->n && t->configs[at] == config ? t->scores + t->rows[at] * t->count : NULL;
}

/* Room for so many configs more. */
static int reserve(tg_stored *t, int64_t more) {
    if (t->n + more <= t->room) return 1;
    const int64_t room = t->n + more > 2 * t->room ? t->n + more : 2 * t->room;
    int64_t *configs = realloc(t->configs, (size_t)room * sizeof *configs);
    if (configs != NULL) t->configs = configs;
    int64_t *rows = realloc(t->rows, (size_t)room * sizeof *rows);
    if (rows != NULL) t->rows = rows;
    float *scores = realloc(t->scores, (size_t)(room * t->count) * sizeof *scores);
    if (scores != NULL) t->scores = scores;
    if (configs == NULL || rows == NULL || scores == NULL) return 0;
    t->room = room;
    return 1;
}

/* The scores of a config that has room, all NaN if it is new. */
static float *make_scores(tg_stored *t, int64_t config) {
    const int64_t at = place_of(t, config);
    if (at == t->n || t->configs[at] != config) {
        memmove(t->configs + at + 1, t->configs + at, (size_t)(t->n - at) * sizeof *t->configs);
        memmove(t->rows + at + 1, t->rows + at, (size_t)(t->n - at) * sizeof *t->rows);
        t->configs[at] = config;
        t->rows[at] = t->n++;
        for (int64_t i = 0; i < t->count; i++) t->scores[t->rows[at] * t->count + i] = NAN;
    }
    return t->scores + t->rows[at] * t->count;
}

/* ---- the graphs ---- */

static int64_t graph_at(const tg_segments *s, int64_t graph) {
    int64_t at = 0;
    while (at < s->n && s->graphs[at].graph < graph) at++;
    return at;
}

static tg_stored *find(const tg_segments *s, int64_t graph) {
    const int64_t at = graph_at(s, graph);
    return at < s->n && s->graphs[at].graph == graph ? &s->graphs[at] : NULL;
}

/* The scores of a graph, which are new if there are none. NULL without memory. */
static tg_stored *make(tg_segments *s, int64_t graph, int64_t count) {
    tg_stored *known = find(s, graph);
    if (known != NULL) return known;
    tg_stored *more = realloc(s->graphs, (size_t)(s->n + 1) * sizeof *more);
    if (more == NULL) return NULL;
    s->graphs = more;
    const int64_t at = graph_at(s, graph);
    memmove(more + at + 1, more + at, (size_t)(s->n - at) * sizeof *more);
    s->n++;
    more[at] = (tg_stored){.graph = graph, .count = count};
    return &more[at];
}

void tg_segments_free(tg_segments *s) {
    for (int64_t i = 0; i < s->n; i++) free_stored(&s->graphs[i]);
    free(s->graphs);
    s->graphs = NULL;
    s->n = 0;
}

/* ---- draws ---- */

/* Scores of all n configs; 0 if one of them was never seen. */
static int find_scores(const tg_stored *t, const int64_t *configs, int64_t n, const float **scores) {
    for (int64_t i = 0; i < n; i++)
        if ((scores[i] = scores_of(t, configs[i])) == NULL) return 0;
    return 1;
}

/* Add the scores of a segment to sums (n); 0 if some config has none in it. */
static int add_segment(const float *const *scores, int64_t segment, int64_t n, double *sums) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(scores[i][segment])) return 0;
    for (int64_t i = 0; i < n; i++) sums[i] += scores[i][segment];
    return 1;
}

tg_status tg_segments_draw(const tg_segments *s, int64_t graph, int64_t visit, int64_t count,
                           const int64_t *configs, int64_t n, int64_t *segment, float *scale, float *shift,
                           tg_error *err) {
    const uint64_t key = tg_key(tg_key(tg_key(0, s->seed), SEGMENTS), (uint64_t)visit);
    const tg_stored *t = find(s, graph);
    *segment = (int64_t)tg_below(tg_key(key, 0), 0, (uint64_t)count);
    *scale = (float)count;
    memset(shift, 0, (size_t)n * sizeof *shift);
    if (t == NULL) return TG_OK;
    if (t->count != count)
        return tg_refuse(err, TG_E_CHECKPOINT, "segments.sizes", "as many segments as the graph has",
                         "%lld of %lld: the file is damaged; delete it to start again", (long long)t->count,
                         (long long)count);
    double *sums = calloc((size_t)n + 1, sizeof *sums);
    const float **scores = calloc((size_t)n + 1, sizeof *scores);
    const int there = sums != NULL && scores != NULL;
    const int known = there && find_scores(t, configs, n, scores);
    for (int64_t other = 0; known && other < count; other++) {
        const double tossed = tg_uniform(tg_key(tg_key(key, 1), (uint64_t)other), 0);
        if (other != *segment && tossed < s->keep) *scale -= (float)add_segment(scores, other, n, sums);
    }
    for (int64_t i = 0; known && i < n; i++) shift[i] = (float)sums[i];
    free(sums);
    free(scores);
    return there ? TG_OK : tg_fail(err, TG_E_MEMORY, "no memory for %lld configs", (long long)n);
}

tg_status tg_segments_store(tg_segments *s, int64_t graph, int64_t count, int64_t segment,
                            const int64_t *configs, const float *scores, int64_t n, tg_error *err) {
    if (s->keep == 0) return TG_OK;
    tg_stored *t = make(s, graph, count);
    if (t == NULL || !reserve(t, n))
        return tg_fail(err, TG_E_MEMORY, "no memory for the scores of %lld configs", (long long)n);
    for (int64_t i = 0; i < n; i++) make_scores(t, configs[i])[segment] = scores[i];
    return TG_OK;
}

/* ---- files ---- */

void tg_segments_size(const tg_segments *s, int64_t *configs, int64_t *scores) {
    *configs = *scores = 0;
    for (int64_t i = 0; i < s->n; i++) {
        *configs += s->graphs[i].n;
        *scores += s->graphs[i].n * s->graphs[i].count;
    }
}

void tg_segments_save(const tg_segments *s, int64_t *sizes, int64_t *configs, float *scores) {
    for (int64_t i = 0; i < s->n; i++) {
        const tg_stored *t = &s->graphs[i];
        const int64_t size[] = {t->graph, t->n, t->count};
        memcpy(sizes + 3 * i, size, sizeof size);
        for (int64_t c = 0; c < t->n; c++, scores += t->count) {
            *configs++ = t->configs[c];
            memcpy(scores, t->scores + t->rows[c] * t->count, (size_t)t->count * sizeof *scores);
        }
    }
}

static tg_status check_sizes(const int64_t *sizes, int64_t n, int64_t n_configs, int64_t n_scores,
                             int64_t graphs, tg_error *err) {
    int64_t configs = 0;
    __int128 scores = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t *size = sizes + 3 * i;
        if (size[0] < 0 || size[0] >= graphs || size[1] < 1 || size[1] > n_configs - configs || size[2] < 2)
            return tg_refuse(err, TG_E_CHECKPOINT, "segments.sizes",
                             "numbers of graphs, configs and segments", "%lld, %lld, %lld",
                             (long long)size[0], (long long)size[1], (long long)size[2]);
        configs += size[1];
        scores += (__int128)size[1] * size[2];
    }
    if (configs != n_configs)
        return tg_refuse(err, TG_E_CHECKPOINT, "segments.configs", "as many as segments.sizes says", "%lld",
                         (long long)n_configs);
    if (scores != n_scores)
        return tg_refuse(err, TG_E_CHECKPOINT, "segments.scores", "as many as segments.sizes says", "%lld",
                         (long long)n_scores);
    return TG_OK;
}

tg_status tg_segments_load(tg_segments *s, const int64_t *sizes, int64_t n, const int64_t *configs,
                           int64_t n_configs, const float *scores, int64_t n_scores, int64_t graphs,
                           tg_error *err) {
    tg_status status = check_sizes(sizes, n, n_configs, n_scores, graphs, err);
    tg_segments_free(s);
    for (int64_t i = 0; status == TG_OK && i < n; i++) {
        const int64_t own = sizes[3 * i + 1], count = sizes[3 * i + 2];
        tg_stored *t = make(s, sizes[3 * i], count);
        if (t == NULL || !reserve(t, own))
            return tg_fail(err, TG_E_MEMORY, "no memory for the scores of %lld configs", (long long)own);
        for (int64_t c = 0; c < own; c++)
            if (configs[c] < 0 || t->n != c || (c > 0 && configs[c] <= configs[c - 1]))
                return tg_refuse(err, TG_E_CHECKPOINT, "segments.configs", "rising numbers", "%lld",
                                 (long long)configs[c]);
            else make_scores(t, configs[c]);
        for (int64_t j = 0; j < own * count; j++)
            if (isinf(scores[j]))
                return tg_refuse(err, TG_E_CHECKPOINT, "segments.scores", "finite scores, or NaN",
                                 "infinity");
        memcpy(t->scores, scores, (size_t)(own * count) * sizeof *scores);
        configs += own;
        scores += own * count;
    }
    return status;
}
