#define _GNU_SOURCE
#include "hlo/hlo.h"

#include <stdlib.h>
#include <string.h>

static const tg_fields module_fields = {
    [1] = TG_CONTENT, [3] = TG_CONTENT, [6] = TG_NUMBER, [11] = TG_NUMBER};
static const tg_fields computation_fields = {
    [1] = TG_CONTENT, [2] = TG_CONTENT, [5] = TG_NUMBER, [6] = TG_NUMBER};

/* A program that is being read. */
typedef struct work {
    tg_hlo_reader *r;
    const tg_featurizer *featurizer;
    tg_hlo_graph *graph;
    int looped;              /* something is used before it stands in the file, so there may be a circle */
    tg_id_map places, nodes; /* of computations, by id; of the nodes of one computation */
    tg_ids calls;            /* edges whose v is still the id of a computation */
    tg_ids shapes; /* node, its number of operands, the ids of the first two: of those that show shapes */
    tg_instruction instruction;
} work;

/* ---- sizes ---- */

static int contains(tg_wire text, const char *word) {
    return memmem(text.at, (size_t)(text.end - text.at), word, strlen(word)) != NULL;
}

/* Read the fields of a computation, and count its instructions. */
static tg_status read_header(tg_hlo_reader *r, tg_computation *c) {
    tg_wire w = c->message;
    tg_wire_field f;
    int more;
    c->id = c->root_id = c->count = 0;
    c->name = (tg_wire){w.at, w.at};
    while ((more = tg_hlo_next(r, &w, computation_fields, &f)) > 0) {
        if (f.number == 1) c->name = f.bytes;
        else if (f.number == 2) c->count++;
        else *(f.number == 5 ? &c->id : &c->root_id) = (int64_t)f.value;
    }
    if (more < 0) return TG_E_DATA;
    c->splits = contains(c->name, "cluster") || contains(c->name, "while") || contains(c->name, "cond");
    if (c->count == 0)
        return tg_hlo_bad(r, c->message.at, "at least one instruction", TG_HLO_DAMAGED, "none");
    return TG_OK;
}

/* A place for one more computation. Each has an instruction, so the list takes at most some multiple of the file. */
static tg_computation *add_computation(tg_hlo_graph *graph) {
    const int64_t n = graph->computations;
    if ((n & (n - 1)) == 0) { /* there is room for a power of two */
        const size_t room = n == 0 ? 1 : 2 * (size_t)n;
        tg_computation *list = realloc(graph->list, room * sizeof *list);
        if (list == NULL) return NULL;
        graph->list = list;
    }
    graph->computations++;
    return &graph->list[n];
}

tg_status tg_hlo_measure_module(tg_hlo_reader *r, tg_hlo_graph *graph) {
    tg_wire w = graph->module;
    tg_wire_field f;
    tg_status status = TG_OK;
    int more = 1;
    graph->S = 2; /* the first and the last */
    while (status == TG_OK && (more = tg_hlo_next(r, &w, module_fields, &f)) > 0) {
        if (f.number == 1) graph->name = f.bytes;
        if (f.number == 6) graph->entry_id = (int64_t)f.value;
        if (f.number == 11) graph->is_dynamic = f.value != 0;
        if (f.number != 3) continue;
        r->computation = graph->computations;
        tg_computation *c = add_computation(graph);
        if (c == NULL) return tg_fail(r->err, TG_E_MEMORY, "no memory for a module");
        *c = (tg_computation){.message = f.bytes, .first = graph->N};
        status = read_header(r, c);
        if (status != TG_OK) return status;
        r->computation = -1;
        graph->N += c->count;
        graph->S += c->splits;
        status = tg_hlo_progress(r, w.at);
    }
    if (more < 0) return TG_E_DATA;
    if (status == TG_OK && graph->computations == 0)
        return tg_hlo_bad(r, graph->module.at, "at least one computation", TG_HLO_DAMAGED, "none");
    return status;
}

/* ---- nodes ---- */

tg_status tg_hlo_find_places(tg_hlo_reader *r, const tg_hlo_graph *graph, tg_id_map *places) {
    tg_status status = tg_id_map_reset(places, graph->computations, r->err);
    for (int64_t place = 0; place < graph->computations && status == TG_OK; place++) {
        const tg_computation *c = &graph->list[place];
        const int64_t other = tg_id_map_add(places, c->id, place);
        if (other < 0) continue;
        r->computation = place;
        status = tg_hlo_bad(r, c->message.at, "an id of its own", TG_HLO_DAMAGED,
                            "id %lld of computation %lld", (long long)c->id, (long long)other);
    }
    return status;
}

/* Fill in what follows from the list of computations. */
static void use_headers(const tg_hlo_graph *graph) {
    int64_t *split = graph->node_splits;
    *split++ = 0;
    for (int64_t place = 0; place < graph->computations; place++) {
        const tg_computation *c = &graph->list[place];
        graph->computation_sizes[place] = c->count;
        if (c->splits) *split++ = c->first + c->count;
    }
    *split = graph->N;
}

static tg_status add_edge(work *k, int64_t u, int64_t v) {
    if (k->graph->edges.count / 2 >= k->graph->most_edges)
        return tg_hlo_bad(k->r, k->graph->list[k->r->computation].message.at,
                          "edges that max_bytes has room for", "raise max_bytes if the file is right",
                          "more than %lld", (long long)k->graph->most_edges);
    const tg_status status = tg_ids_add(&k->graph->edges, u, k->r->err);
    return status == TG_OK ? tg_ids_add(&k->graph->edges, v, k->r->err) : status;
}

/* Note what the node, whose instruction was read, uses. */
static tg_status note_uses(work *k, int64_t node) {
    tg_ids *operands = &k->instruction.operands, *called = &k->instruction.called;
    const uint8_t opcode = k->instruction.opcode;
    tg_status status = TG_OK;
    if (k->graph->extra != NULL && (opcode == TG_OPCODE_CONVOLUTION || opcode == TG_OPCODE_DOT)) {
        const int64_t n = operands->count;
        const int64_t shape[4] = {node, n, n > 0 ? operands->items[0] : 0, n > 1 ? operands->items[1] : 0};
        for (int i = 0; i < 4 && status == TG_OK; i++) status = tg_ids_add(&k->shapes, shape[i], k->r->err);
    }
    operands->count = tg_ids_unique(operands->items, operands->count);
    for (int64_t i = 0; i < operands->count && status == TG_OK; i++)
        status = add_edge(k, node, operands->items[i]);
    for (int64_t i = 0; i < called->count && status == TG_OK; i++) {
        status = tg_ids_add(&k->calls, k->graph->edges.count / 2, k->r->err);
        if (status == TG_OK) status = add_edge(k, node, called->items[i]);
    }
    return status;
}

/* An error about a node of a computation that was read before. */
static tg_status bad_use(work *k, int64_t place, int64_t node, const char *expected, const char *what,
                         int64_t id) {
    const tg_computation *c = &k->graph->list[place];
    tg_wire w = c->message;
    tg_wire_field f = {0};
    for (int64_t seen = c->first; seen <= node && tg_hlo_next(k->r, &w, computation_fields, &f) > 0;)
        seen += f.number == 2;
    k->r->computation = place;
    k->r->instruction = node - c->first;
    return tg_hlo_bad(k->r, f.tag, expected, TG_HLO_DAMAGED, "%s %lld in the instruction", what,
                      (long long)id);
}

/* Turn ids of operands into nodes; edges from `from` on and calls from `call` on are this computation's. */
static tg_status resolve_operands(work *k, int64_t place, int64_t from, int64_t call) {
    int64_t *edges = k->graph->edges.items;
    const int64_t count = k->graph->edges.count / 2;
    for (int64_t i = from; i < count; i++) {
        if (call < k->calls.count && k->calls.items[call] == i) {
            call++;
            continue;
        }
        const int64_t u = edges[2 * i], v = tg_id_map_find(&k->nodes, edges[2 * i + 1]);
        if (v < 0)
            return bad_use(k, place, u, "operands that are in this computation", "operand id",
                           edges[2 * i + 1]);
        if (v == u) return bad_use(k, place, u, "other operands than itself", "operand id", edges[2 * i + 1]);
        k->looped |= v > u;
        edges[2 * i + 1] = v;
    }
    for (int64_t i = 0; i < k->shapes.count; i += 4) {
        const int64_t *shape = k->shapes.items + i;
        float *to = k->graph->extra + shape[0] * TG_EXTRA_FEATURES + TG_OPERAND_SHAPES;
        for (int j = 0; j < 2 * TG_SHAPE_COLUMNS; j++) to[j] = -1;
        for (int j = 0; j < 2 && j < shape[1]; j++)
            memcpy(to + j * TG_SHAPE_COLUMNS,
                   k->graph->node_feat + tg_id_map_find(&k->nodes, shape[2 + j]) * TG_NODE_FEATURES +
                       TG_SHAPE_COLUMN,
                   TG_SHAPE_COLUMNS * sizeof *to);
    }
    k->shapes.count = 0;
    return TG_OK;
}

static tg_status find_root(work *k, int64_t place) {
    tg_computation *c = &k->graph->list[place];
    c->root = tg_id_map_find(&k->nodes, c->root_id);
    if (c->root < 0)
        return tg_hlo_bad(k->r, c->message.at, "a root among its instructions", TG_HLO_DAMAGED,
                          "root id %lld, which none has", (long long)c->root_id);
    k->graph->node_feat[c->root * TG_NODE_FEATURES] = 1;
    if (k->graph->extra != NULL) k->graph->extra[c->root * TG_EXTRA_FEATURES + TG_IS_ROOT_OF_COM] = 1;
    return TG_OK;
}

static tg_status read_computation(work *k, int64_t place) {
    tg_hlo_reader *r = k->r;
    tg_hlo_graph *g = k->graph;
    const tg_computation *c = &k->graph->list[place];
    const int64_t edges = g->edges.count / 2, calls = k->calls.count;
    tg_wire w = c->message;
    tg_wire_field f;
    int64_t node = c->first;
    tg_status status = tg_id_map_reset(&k->nodes, c->count, r->err);
    r->computation = place;
    while (status == TG_OK && tg_hlo_next(r, &w, computation_fields, &f) > 0) {
        if (f.number != 2) continue;
        if (node == c->first + c->count) return tg_hlo_changed(r, f.tag);
        r->instruction = node - c->first;
        float *extra = g->extra == NULL ? NULL : g->extra + node * TG_EXTRA_FEATURES;
        status = tg_hlo_instruction(r, f.bytes, k->featurizer, g->node_feat + node * TG_NODE_FEATURES, extra,
                                    &k->instruction);
        if (status != TG_OK) return status;
        if (extra != NULL) extra[TG_HAS_DYNAMIC_COM] = (float)g->is_dynamic;
        g->node_opcode[node] = k->instruction.opcode;
        g->instruction_ids[node] = k->instruction.id;
        const int64_t other = tg_id_map_add(&k->nodes, k->instruction.id, node);
        if (other >= 0)
            return tg_hlo_bad(r, f.tag, "an id of its own", TG_HLO_DAMAGED, "id %lld of instruction %lld",
                              (long long)k->instruction.id, (long long)(other - c->first));
        status = note_uses(k, node++);
        if (status == TG_OK) status = tg_hlo_progress(r, w.at);
    }
    r->instruction = -1;
    if (status == TG_OK && node < c->first + c->count) status = tg_hlo_changed(r, w.at);
    if (status == TG_OK) status = resolve_operands(k, place, edges, calls);
    if (status == TG_OK) status = find_root(k, place);
    return status;
}

/* ---- calls ---- */

/* Of `count` places one that needs its own result, or -1. n pairs (u,v): u needs v. */
static tg_status find_circle(int64_t count, const int64_t *pairs, int64_t n, int64_t *place, tg_error *err) {
    int64_t *first = calloc((size_t)count + 1, sizeof *first); /* entry i + 1: where the users of i begin */
    int64_t *needs = calloc((size_t)count, sizeof *needs);     /* how many it still waits for */
    int64_t *users = malloc((size_t)n * sizeof *users), *done = malloc((size_t)count * sizeof *done);
    tg_status status = TG_OK;
    int64_t begin = 0, end = 0;
    *place = -1;
    if (first == NULL || needs == NULL || users == NULL || done == NULL) {
        status = tg_fail(err, TG_E_MEMORY, "no memory to look for circles");
        goto out;
    }
    for (int64_t i = 0; i < n; i++) first[pairs[2 * i + 1] + 1]++, needs[pairs[2 * i]]++;
    for (int64_t i = 0; i < count; i++) first[i + 1] += first[i];
    for (int64_t i = 0; i < n; i++) users[--first[pairs[2 * i + 1] + 1]] = pairs[2 * i];
    for (int64_t i = 0; i < count; i++)
        if (needs[i] == 0) done[end++] = i;
    for (; begin < end; begin++) {
        const int64_t i = done[begin], behind = i + 1 < count ? first[i + 2] : n;
        for (int64_t j = first[i + 1]; j < behind; j++)
            if (--needs[users[j]] == 0) done[end++] = users[j];
    }
    if (end == count) goto out;
    for (int64_t i = 0; i < n; i++) /* of those that are left, each waits for another one: follow these */
        if (needs[pairs[2 * i]] > 0 && needs[pairs[2 * i + 1]] > 0) first[pairs[2 * i]] = pairs[2 * i + 1];
    for (*place = 0; needs[*place] == 0;) ++*place;
    for (int64_t i = 0; i < count; i++) *place = first[*place];
out:
    free(first), free(needs), free(users), free(done);
    return status;
}

/* Turn ids of computations into their roots. */
static tg_status resolve_calls(work *k) {
    int64_t *edges = k->graph->edges.items, caller = 0, circle = -1;
    int backward = 0;
    tg_ids pairs = {NULL, 0, 0}; /* caller, called */
    tg_status status = TG_OK;
    for (int64_t i = 0; i < k->calls.count && status == TG_OK; i++) {
        int64_t *edge = edges + 2 * k->calls.items[i];
        while (edge[0] >= k->graph->list[caller].first + k->graph->list[caller].count) caller++;
        const int64_t called = tg_id_map_find(&k->places, edge[1]);
        if (called < 0)
            status = bad_use(k, caller, edge[0], "calls of computations of this module", "computation id",
                             edge[1]);
        if (called >= 0) edge[1] = k->graph->list[called].root;
        backward |= called >= caller;
        if (status == TG_OK) status = tg_ids_add(&pairs, caller, k->r->err);
        if (status == TG_OK) status = tg_ids_add(&pairs, called, k->r->err);
    }
    if (status == TG_OK && backward)
        status = find_circle(k->graph->computations, pairs.items, pairs.count / 2, &circle, k->r->err);
    tg_ids_free(&pairs);
    if (circle < 0) return status;
    k->r->computation = circle;
    return tg_hlo_bad(k->r, k->graph->list[circle].message.at, "calls without a circle", TG_HLO_DAMAGED,
                      "that it calls itself, at once or through others");
}

static tg_status check_uses(work *k) {
    const tg_ids *edges = &k->graph->edges;
    int64_t node, place = 0;
    tg_status status = find_circle(k->graph->N, edges->items, edges->count / 2, &node, k->r->err);
    if (status != TG_OK || node < 0) return status;
    while (node >= k->graph->list[place].first + k->graph->list[place].count) place++;
    return bad_use(k, place, node, "instructions that need no result of their own", "a circle through id",
                   k->graph->instruction_ids[node]);
}

tg_status tg_hlo_read_module(tg_hlo_reader *r, const tg_featurizer *featurizer, tg_hlo_graph *graph) {
    work k = {.r = r, .featurizer = featurizer, .graph = graph};
    tg_status status = tg_hlo_find_places(r, graph, &k.places);
    use_headers(graph);
    for (int64_t place = 0; place < graph->computations && status == TG_OK; place++)
        status = read_computation(&k, place);
    r->computation = r->instruction = -1;
    if (status == TG_OK) status = resolve_calls(&k);
    if (status == TG_OK && k.looped) status = check_uses(&k);
    tg_id_map_free(&k.places), tg_id_map_free(&k.nodes);
    tg_ids_free(&k.calls), tg_ids_free(&k.shapes);
    tg_ids_free(&k.instruction.operands), tg_ids_free(&k.instruction.called);
    return status;
}

void tg_hlo_sort_edges(tg_ids *edges) {
    int64_t kept = 0;
    int64_t *items = edges->items;
    for (int64_t begin = 0, end; begin < edges->count; begin = end) {
        const int64_t u = items[begin];
        /* The v's of u into the first half of its places, in order; then pairs again, from the last one on. */
        int64_t n = 0;
        for (end = begin; end < edges->count && items[end] == u; end += 2) items[kept + n++] = items[end + 1];
        n = tg_ids_unique(items + kept, n);
        for (int64_t i = n - 1; i >= 0; i--) {
            items[kept + 2 * i + 1] = items[kept + i];
            items[kept + 2 * i] = u;
        }
        kept += 2 * n;
    }
    edges->count = kept;
}
