#include "prepare/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

float *tg_draft_room(int64_t rows, int64_t cols, tg_error *err) {
    float *x = NULL;
    TG_ASSERT(rows >= 0 && cols >= 0);
    if (rows <= INT64_MAX / (int64_t)sizeof *x / (cols + 1))
        x = malloc((size_t)(rows * cols + 1) * sizeof *x);
    if (x == NULL)
        tg_fail(err, TG_E_MEMORY, "no memory for %lld rows of %lld features", (long long)rows,
                (long long)cols);
    return x;
}

void tg_features_copy(const tg_features *x, float *to, int64_t ld) {
    for (int64_t i = 0; x->cols > 0 && i < x->rows; i++) /* x may be NULL without columns */
        memcpy(to + i * ld, x->x + i * x->ld, (size_t)x->cols * sizeof *to);
}

tg_status tg_draft_replace(tg_draft *d, tg_table t, tg_status status, float *x, int cols, int finite) {
    tg_features *table = &d->table[t];
    if (status != TG_OK) {
        free(x);
        return status;
    }
    free(table->own);
    *table = (tg_features){table->rows, cols, cols, x, x, finite};
    return TG_OK;
}

static tg_status bad_node(const char *field, const int64_t *ids, int64_t at, int per, int64_t N,
                          tg_error *err) {
    return tg_fail_field(err, field, "node ids in 0..N-1", "%lld %s %lld of a graph with N = %lld",
                         (long long)ids[at], per == 2 ? "in row" : "at", (long long)(at / per), (long long)N);
}

tg_status tg_draft_whole(tg_draft *d, tg_error *err) {
    const tg_stored *s = d->from;
    if (d->copied != NULL) return TG_OK;
    if ((d->copied = malloc((size_t)(2 * s->E + s->K + 1) * sizeof *d->copied)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld edges", (long long)s->E);
    int64_t *edges = d->copied, *nodes = d->copied + 2 * s->E;
    /* copied before they are checked: nobody can change them any more */
    if (s->E > 0) memcpy(edges, s->edges, (size_t)(2 * s->E) * sizeof *edges);
    if (s->K > 0) memcpy(nodes, s->config_nodes, (size_t)s->K * sizeof *nodes);
    for (int64_t i = 0; i < 2 * s->E; i++)
        if ((uint64_t)edges[i] >= (uint64_t)s->N) return bad_node("edge_index", edges, i, 2, s->N, err);
    for (int64_t k = 0; k < s->K; k++)
        if ((uint64_t)nodes[k] >= (uint64_t)s->N) return bad_node("node_config_ids", nodes, k, 1, s->N, err);
    d->checks++;
    if (d->nodes == NULL) d->edges = edges, d->config_nodes = nodes;
    return TG_OK;
}
