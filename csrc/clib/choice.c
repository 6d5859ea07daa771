#include "clib/clib.h"

#include <math.h>

/* Whether config i comes before j. */
static int before(const float *scores, int64_t i, int64_t j) {
    return scores[i] < scores[j] || (scores[i] == scores[j] && i < j);
}

/* A heap of the best so far, the worst of them first. */
static void sink(const float *scores, int64_t *heap, int64_t n, int64_t at) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(scores, heap[child], heap[child + 1])) child++;
        if (!before(scores, heap[at], heap[child])) return;
        const int64_t other = heap[at];
        heap[at] = heap[child], heap[child] = other;
    }
}

tg_status tg_best(const float *scores, int64_t count, int64_t k, int64_t *best, tg_message *message) {
    if (k < 0 || k > count) return tg_argument(message, "k", "a number of configs, at most all");
    if (k == 0) return TG_OK;
    if (scores == NULL || best == NULL)
        return tg_argument(message, "scores", "arrays of scores and of numbers");
    for (int64_t i = 0; i < count; i++)
        if (isnan(scores[i])) return tg_argument(message, "scores", "numbers");
    for (int64_t i = 0; i < k; i++) best[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--) sink(scores, best, k, i);
    for (int64_t i = k; i < count; i++)
        if (before(scores, i, best[0])) best[0] = i, sink(scores, best, k, 0);
    for (int64_t n = k - 1; n > 0; n--) {
        const int64_t worst = best[0];
        best[0] = best[n], best[n] = worst;
        sink(scores, best, n, 0);
    }
    return TG_OK;
}

tg_status tg_ranker_choose(tg_ranker *r, const tg_graph_arrays *graph, const tg_config_arrays *configs,
                           int64_t k, int64_t *best, tg_message *message) {
    tg_graph_arrays g;
    tg_config_arrays c;
    if (r == NULL) return tg_argument(message, "ranker", "an open ranker");
    if (configs == NULL || !tg_take_struct(&c, sizeof c, configs, sizeof c))
        return tg_argument(message, "configs", "configs, with their size");
    if (c.count < 0 || c.count > INT32_MAX) return tg_argument(message, "configs", "a number of them");
    if (r->process != NULL && k > 0 && k <= c.count && best != NULL) {
        tg_scope scope;
        if (graph == NULL || !tg_take_struct(&g, sizeof g, graph, sizeof g))
            return tg_argument(message, "graph", "a graph, with its size");
        tg_scope_begin(&scope, &r->heap, &r->spread, r->threads);
        return tg_scope_end(&scope, tg_choose_together(r, &g, &c, k, best, &scope.err), message);
    }
    const tg_heap *heap = tg_heap_enter(&r->heap);
    float *scores = malloc((size_t)c.count * sizeof *scores + 1);
    tg_heap_enter(heap);
    if (scores == NULL) return tg_no_memory(message);
    tg_status status = tg_ranker_score(r, graph, &c, scores, message);
    if (status == TG_OK) status = tg_best(scores, c.count, k, best, message);
    free(scores);
    return status;
}

int64_t tg_decide(const float *scores, int64_t count, int64_t standard, double margin) {
    int64_t best = standard;
    if (scores == NULL || standard < 0 || standard >= count || isnan(scores[standard])) return standard;
    for (int64_t i = 0; i < count; i++)
        if (scores[i] < scores[best]) best = i;
    return (double)scores[standard] - (double)scores[best] > margin ? best : standard;
}
