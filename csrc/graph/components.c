#include "graph/components.h"

#include <stdlib.h>

#include "base/check.h"

/* Tarjan 1972, with a stack of its own instead of recursion. */
typedef struct search {
    const tg_csr *next;
    int32_t *component;
    int32_t *index;       /* (N): order of discovery from 1 on, 0: not yet */
    int32_t *low;         /* (N): the earliest known to be reached */
    int32_t *edge;        /* (N): the next entry to follow */
    int32_t *path, *open; /* (N) each: nodes being visited; nodes whose component is not closed */
    int32_t visited, on_path, n_open, components;
} search;

static void enter(search *s, int32_t node) {
    s->index[node] = s->low[node] = ++s->visited;
    s->edge[node] = s->next->ptr[node];
    s->path[s->on_path++] = node;
    s->open[s->n_open++] = node;
}

static void leave(search *s, int32_t node) {
    s->on_path--;
    if (s->low[node] == s->index[node]) {
        int32_t member;
        do s->component[member = s->open[--s->n_open]] = s->components;
        while (member != node);
        s->components++;
    }
    if (s->on_path == 0) return;
    const int32_t before = s->path[s->on_path - 1];
    if (s->low[node] < s->low[before]) s->low[before] = s->low[node];
}

static void visit(search *s, int32_t root) {
    enter(s, root);
    while (s->on_path > 0) {
        const int32_t node = s->path[s->on_path - 1];
        if (s->edge[node] == s->next->ptr[node + 1]) {
            leave(s, node);
            continue;
        }
        const int32_t to = s->next->idx[s->edge[node]++];
        if (s->index[to] == 0) enter(s, to);
        else if (s->component[to] < 0 && s->index[to] < s->low[node]) s->low[node] = s->index[to];
    }
}

tg_status tg_components(int32_t *component, const tg_csr *next, tg_error *err) {
    const int32_t N = next->N;
    TG_ASSERT(component != NULL && next->ptr != NULL && next->ptr[N] == next->E);
    int32_t *block = calloc(5 * (size_t)N + 1, sizeof *block);
    if (block == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the components of %d nodes", N);
    search s = {.next = next,
                .component = component,
                .index = block,
                .low = block + N,
                .edge = block + 2 * (size_t)N,
                .path = block + 3 * (size_t)N,
                .open = block + 4 * (size_t)N};
    for (int32_t n = 0; n < N; n++) component[n] = -1;
    for (int32_t n = 0; n < N; n++)
        if (s.index[n] == 0) visit(&s, n);
    free(block);
    return TG_OK;
}
