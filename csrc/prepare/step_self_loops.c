/* Edges from nodes to themselves, as convolutions with attention take them. */
#include "prepare/step.h"

#include <stdlib.h>

enum { MOST_EDGES = INT32_MAX / 2 };

static void outline(const tg_use *use, tg_outline *outline, int fitted) {
    (void)use, (void)fitted;
    outline->has_loops = 1;
}

/* to (E',2): the edges but for all loops of a node after its first, then a loop for each node without. looped(N) is 0.
   Returns E', which is at most E + N. */
static int64_t add_loops(const int64_t *edges, int64_t E, int64_t N, unsigned char *looped, int64_t *to) {
    int64_t at = 0;
    for (int64_t e = 0; e < E; e++) {
        const int64_t u = edges[2 * e], v = edges[2 * e + 1];
        if (u == v && looped[u]) continue;
        if (u == v) looped[u] = 1;
        to[2 * at] = u;
        to[2 * at++ + 1] = v;
    }
    for (int64_t n = 0; n < N; n++)
        if (!looped[n]) {
            to[2 * at] = to[2 * at + 1] = n;
            at++;
        }
    return at;
}

static tg_status apply(const tg_use *use, tg_draft *d, tg_error *err) {
    (void)use;
    if (!tg_wants(d, TG_TABLE_NODE)) return TG_OK;
    const tg_status status = d->nodes == NULL ? tg_draft_whole(d, err) : TG_OK;
    if (status != TG_OK) return status;
    if (d->E > MOST_EDGES - d->N)
        return tg_fail_field(err, "edge_index", "at most 2^30 edges, with one from every node to itself",
                             "%lld edges of %lld nodes", (long long)d->E, (long long)d->N);
    unsigned char *looped = calloc((size_t)d->N + 1, 1);
    int64_t *edges = malloc((size_t)(2 * (d->E + d->N) + 1) * sizeof *edges);
    if (looped == NULL || edges == NULL) {
        free(looped);
        free(edges);
        return tg_fail(err, TG_E_MEMORY, "no memory for %lld edges", (long long)(d->E + d->N));
    }
    d->E = add_loops(d->edges, d->E, d->N, looped, edges);
    free(looped);
    free(d->own_edges);
    d->edges = d->own_edges = edges;
    return TG_OK;
}

const tg_prepare_step tg_step_self_loops = {
    .name = "self-loops",
    .doc = "Give every node exactly one edge to itself, as torch_geometric.nn.GATConv: loops that are "
           "missing come last, repeated ones go.",
    .outline = outline,
    .apply = apply,
};
