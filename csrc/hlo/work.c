#define _GNU_SOURCE
#include "hlo/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the columns ---- */

enum {
    KERNELS,
    SMALL,
    LIBRARY,
    FUSED,
    PARALLEL,
    LOOPS,
    MOST_RUNS, /* the largest, not the sum */
    LARGEST,   /* too */
    TRAFFIC,
    PARALLEL_ELEMENTS,
    DOT_LEFT, /* and the next three: of products */
    DOTS = 4
};
static const char *const count_names[TG_WORK_COUNTS] = {"kernels",
                                                        "small kernels",
                                                        "library kernels",
                                                        "fused kernels",
                                                        "parallel kernels",
                                                        "loops",
                                                        "most runs of a loop",
                                                        "largest array",
                                                        "traffic",
                                                        "parallel elements",
                                                        "dot transposed left",
                                                        "dot transposed right",
                                                        "dot batched",
                                                        "dot with a vector"};

enum { IN_LIBRARY, IN_FUSION, ALONE };
static const char *const place_names[] = {"library", "fused", "alone"};

/* Kinds of work, which have a column for each place; behind them instructions that are handled otherwise. */
enum { DOT = 0, CHEAP = TG_WORK_KINDS - 1, NOTHING, WHILE, CALL, FUSION };
static const struct {
    const char *name;
    int reads; /* whether it reads more than it writes */
    const char *opcodes;
} kinds[] = {
    [DOT] = {"dot", 0, "dot"},
    {"convolution", 1, "convolution"},
    {"reduce", 1, "reduce"},
    {"window", 1, "reduce-window select-and-scatter"},
    {"transcendental", 0,
     "atan2 cbrt cosine divide erf exponential exponential-minus-one log log-plus-one logistic power rsqrt "
     "sine sqrt tan tanh"},
    {"broadcast", 0, "broadcast iota"},
    {"move", 0, "transpose copy reverse"},
    {"join", 0, "concatenate pad slice"},
    {"gather", 1, "gather"},
    {"scatter", 1, "scatter"},
    {"dynamic", 0, "dynamic-slice dynamic-update-slice"},
    {"sort", 1, "sort"},
    {"other", 1, "fft custom-call topk cholesky triangular-solve rng-bit-generator"},
    [CHEAP] = {"cheap", 0, ""}, /* any other */
    [NOTHING] = {NULL, 0, "parameter constant get-tuple-element tuple bitcast reshape after-all"},
    [WHILE] = {NULL, 0, "while"},
    [CALL] = {NULL, 0, "call conditional"},
    [FUSION] = {NULL, 0, "fusion"},
};

void tg_hlo_work_name(int column, char *name, size_t size) {
    const int cell = column - TG_WORK_COUNTS;
    if (cell < 0) snprintf(name, size, "%s", count_names[column]);
    else snprintf(name, size, "%s %s", place_names[cell / TG_WORK_KINDS], kinds[cell % TG_WORK_KINDS].name);
}

static int kind_of(tg_wire opcode) {
    const size_t size = (size_t)(opcode.end - opcode.at);
    for (int kind = 0; size > 0 && kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
        for (const char *word = kinds[kind].opcodes; *word != 0;) {
            const size_t length = strcspn(word, " ");
            if (length == size && memcmp(word, opcode.at, size) == 0) return kind;
            word += length + (word[length] == ' ');
        }
    }
    return CHEAP;
}

/* ---- what is counted ---- */

static const double most = 1e30; /* of any number: so that no sum of products is infinite */
enum { SMALL_ELEMENTS = 4096, UNKNOWN_RUNS = 10, MOST_TRIPS = 1000000000, DEEPEST_TUPLE = 16 };

/* What an instruction makes: an array, or arrays in a tuple. */
typedef struct value {
    double elements;
    int64_t first, rank; /* dimensions in work.dimensions */
} value;

/* What a computation does in one run. */
typedef struct summary {
    double inner[TG_WORK_KINDS], dots[DOTS]; /* as the content of a fusion */
    double own[TG_WORK_COLUMNS];             /* as a sequence of kernels, without those that it calls */
    int64_t first_call;                      /* in work.calls, three items each */
    double times, most_times;                /* it runs: in all, and from one place; 0 until it is called */
    int is_reached;
} summary;

/* The fields of an instruction that are of interest. */
typedef struct instruction {
    tg_wire opcode, config;
    tg_ids operands, called,
        sides[3]; /* of a product: dimensions summed over left and right, batch of left */
} instruction;

typedef struct work {
    tg_hlo_reader *r;
    const tg_hlo_graph *graph;
    tg_id_map places, nodes; /* computations by id; instructions of one by id */
    tg_ids dimensions, calls;
    value *values; /* of the computation that is being read */
    int64_t room;
    summary *summaries;
    instruction one;
} work;

/* ---- reading ---- */

static tg_status read_shape(work *k, tg_wire w, int depth, value *made) {
    static const tg_fields known = {[3] = TG_NUMBERS, [4] = TG_CONTENT};
    double product = 1, parts = 0;
    int is_tuple = 0, more;
    tg_wire_field f;
    k->r->part = "shape";
    while ((more = tg_hlo_next(k->r, &w, known, &f)) > 0) {
        uint64_t x;
        int item = 0;
        while (f.number == 3 && (item = tg_wire_number(&f.bytes, &x)) > 0) {
            product = fmin(product * (double)x, most);
            if (depth > 0) continue;
            const tg_status status = tg_ids_add(&k->dimensions, (int64_t)x, k->r->err);
            if (status != TG_OK) return status;
            made->rank++;
        }
        if (item < 0) return tg_hlo_fault(k->r, &f.bytes, item);
        if (f.number != 4) continue;
        if (depth == DEEPEST_TUPLE)
            return tg_hlo_bad(k->r, f.tag, "tuples in at most 16 others", TG_HLO_DAMAGED, "more");
        value part = {0};
        const tg_status status = read_shape(k, f.bytes, depth + 1, &part);
        if (status != TG_OK) return status;
        is_tuple = 1, parts = fmin(parts + part.elements, most);
    }
    if (more < 0) return TG_E_DATA;
    if (depth == 0) k->r->part = NULL;
    made->elements = is_tuple ? parts : product;
    return TG_OK;
}

/* What the instruction number `node` of the computation makes. */
static tg_status read_value(work *k, tg_wire w, int64_t node) {
    static const tg_fields known = {[3] = TG_CONTENT, [35] = TG_NUMBER};
    const uint8_t *start = w.at;
    value *made = &k->values[node];
    tg_wire_field f;
    int64_t id = 0;
    int more;
    *made = (value){.elements = 1, .first = k->dimensions.count};
    while ((more = tg_hlo_next(k->r, &w, known, &f)) > 0) {
        if (f.number == 35) {
            id = (int64_t)f.value;
            continue;
        }
        k->dimensions.count = made->first, made->rank = 0;
        const tg_status status = read_shape(k, f.bytes, 0, made);
        if (status != TG_OK) return status;
    }
    if (more < 0) return TG_E_DATA;
    const int64_t other = tg_id_map_add(&k->nodes, id, node);
    if (other < 0) return TG_OK;
    return tg_hlo_bad(k->r, start, "an id of its own", TG_HLO_DAMAGED, "id %lld of instruction %lld",
                      (long long)id, (long long)other);
}

static tg_status read_sides(work *k, tg_wire w) {
    static const tg_fields known = {[1] = TG_NUMBERS, [2] = TG_NUMBERS, [3] = TG_NUMBERS};
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    k->r->part = "dot_dimension_numbers";
    for (int side = 0; side < 3; side++) k->one.sides[side].count = 0;
    while (status == TG_OK && (more = tg_hlo_next(k->r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        status = tg_hlo_collect(k->r, &k->one.sides[f.number - 1], &f);
    }
    if (status == TG_OK) k->r->part = NULL;
    return status;
}

static tg_status read_instruction(work *k, tg_wire w) {
    static const tg_fields known = {
        [2] = TG_CONTENT, [30] = TG_CONTENT, [36] = TG_NUMBERS, [38] = TG_NUMBERS, [43] = TG_CONTENT};
    instruction *one = &k->one;
    tg_wire_field f;
    int more;
    tg_status status = TG_OK;
    one->opcode = one->config = (tg_wire){w.at, w.at};
    one->operands.count = one->called.count = 0;
    for (int side = 0; side < 3; side++) one->sides[side].count = 0;
    while (status == TG_OK && (more = tg_hlo_next(k->r, &w, known, &f)) != 0) {
        if (more < 0) return TG_E_DATA;
        if (f.number == 2) one->opcode = f.bytes;
        else if (f.number == 30) status = read_sides(k, f.bytes);
        else if (f.number == 43) one->config = f.bytes;
        else status = tg_hlo_collect(k->r, f.number == 36 ? &one->operands : &one->called, &f);
    }
    return status;
}

/* What follows a text, or NULL if it is not there. */
static const uint8_t *behind(tg_wire w, const char *text) {
    const size_t length = strlen(text);
    const uint8_t *at = w.at == w.end ? NULL : memmem(w.at, (size_t)(w.end - w.at), text, length);
    return at == NULL ? NULL : at + length;
}

static int64_t trips_of(tg_wire config) {
    const uint8_t *begin = behind(config, "\"known_trip_count\":{\"n\":\""), *at = begin;
    int64_t trips = 0;
    if (begin == NULL) return UNKNOWN_RUNS;
    for (; at < config.end && *at >= '0' && *at <= '9'; at++)
        trips = trips < MOST_TRIPS ? 10 * trips + (*at - '0') : MOST_TRIPS;
    if (at == begin || at == config.end || *at != '"') return UNKNOWN_RUNS;
    return trips < MOST_TRIPS ? trips : MOST_TRIPS;
}

/* ---- counting ---- */

static double elements_of_operand(const work *k, int64_t i) {
    return k->values[k->one.operands.items[i]].elements;
}

static int holds(const tg_ids *ids, int64_t id) {
    for (int64_t i = 0; i < ids->count; i++)
        if (ids->items[i] == id) return 1;
    return 0;
}

/* The product of some dimensions of an operand. */
static tg_status multiply(const work *k, tg_wire w, const value *operand, const tg_ids *chosen,
                          double *product) {
    *product = 1;
    for (int64_t i = 0; i < chosen->count; i++) {
        const int64_t d = chosen->items[i];
        if (d < 0 || d >= operand->rank)
            return tg_hlo_bad(k->r, w.at, "dimensions that the operands have", TG_HLO_DAMAGED,
                              "dimension %lld of %lld in dot_dimension_numbers", (long long)d,
                              (long long)operand->rank);
        *product = fmin(*product * (double)(uint64_t)k->dimensions.items[operand->first + d], most);
    }
    return TG_OK;
}

/* The multiplications of a product, and the same by the shape of its sides. */
static tg_status count_product(const work *k, tg_wire w, double *amount, double dots[DOTS]) {
    const tg_ids *operands = &k->one.operands, *sides = k->one.sides;
    double summed, batch;
    if (operands->count != 2) return TG_OK;
    const value *left = &k->values[operands->items[0]], *right = &k->values[operands->items[1]];
    tg_status status = multiply(k, w, left, &sides[0], &summed);
    if (status == TG_OK) status = multiply(k, w, left, &sides[2], &batch);
    if (status != TG_OK) return status;
    const double shared = fmax(summed * batch, 1);
    const double rows = floor(left->elements / shared), columns = floor(right->elements / shared);
    const int is_of[DOTS] = {!holds(&sides[0], left->rank - 1),
                             columns > 1 && holds(&sides[1], right->rank - 1), sides[2].count > 0,
                             fmin(rows, columns) == 1};
    *amount = fmin(*amount * summed, most);
    for (int i = 0; i < DOTS; i++) dots[i] = is_of[i] ? *amount : 0;
    return TG_OK;
}

static void add_dots(double *to, const double *dots) {
    for (int i = 0; i < DOTS; i++) to[i] += dots[i];
}

/* A place among the computations before this one. */
static tg_status find_called(work *k, tg_wire w, int64_t id, int64_t *place) {
    *place = tg_id_map_find(&k->places, id);
    if (*place >= 0 && *place < k->r->computation) return TG_OK;
    return tg_hlo_bad(k->r, w.at, "calls of computations that stand before it", TG_HLO_DAMAGED,
                      "computation id %lld in the instruction", (long long)id);
}

/* Note that the instruction calls a computation, and how often. */
static tg_status note_call(work *k, tg_wire w, int64_t id, int64_t times, int is_loop) {
    int64_t call[3] = {0, times, is_loop};
    tg_status status = find_called(k, w, id, &call[0]);
    for (int i = 0; i < 3 && status == TG_OK; i++) status = tg_ids_add(&k->calls, call[i], k->r->err);
    return status;
}

/* A fusion, or an instruction on its own, whose kind, amount and product are known. */
static tg_status count_kernel(work *k, tg_wire w, double elements, int kind, double amount,
                              const double *dots) {
    summary *s = &k->summaries[k->r->computation];
    const instruction *one = &k->one;
    double touched = elements, largest = elements, *by_place = s->own + TG_WORK_COUNTS;
    for (int64_t i = 0; i < one->operands.count; i++) {
        touched = fmin(touched + elements_of_operand(k, i), most);
        largest = fmax(largest, elements_of_operand(k, i));
    }
    s->own[KERNELS]++;
    s->own[SMALL] += touched < SMALL_ELEMENTS;
    s->own[TRAFFIC] += touched;
    s->own[LARGEST] = fmax(s->own[LARGEST], largest);
    if (behind(one->config, "\"outer_dimension_partitions\":[\"") != NULL) {
        s->own[PARALLEL]++;
        s->own[PARALLEL_ELEMENTS] += elements;
    }
    if (kind != FUSION || one->called.count == 0) {
        by_place[ALONE * TG_WORK_KINDS + (kind < CHEAP ? kind : CHEAP)] += amount;
        add_dots(s->own + DOT_LEFT, dots);
        return TG_OK;
    }
    int64_t called;
    const tg_status status = find_called(k, w, one->called.items[0], &called);
    if (status != TG_OK) return status;
    const int place = behind(one->config, "\"fusion_config\"") != NULL ? IN_LIBRARY : IN_FUSION;
    s->own[place == IN_LIBRARY ? LIBRARY : FUSED]++;
    for (int i = 0; i < TG_WORK_KINDS; i++)
        by_place[place * TG_WORK_KINDS + i] += k->summaries[called].inner[i];
    add_dots(s->own + DOT_LEFT, k->summaries[called].dots);
    return TG_OK;
}

/* Count the instruction that was read, as part of a fusion and on its own. */
static tg_status count(work *k, tg_wire w, double elements) {
    summary *s = &k->summaries[k->r->computation];
    const tg_ids *called = &k->one.called;
    const int kind = kind_of(k->one.opcode);
    double amount = elements, dots[DOTS] = {0};
    tg_status status = TG_OK;
    if (kind == NOTHING) return TG_OK;
    for (int64_t i = 0; kinds[kind].reads && i < k->one.operands.count; i++)
        amount = fmax(amount, elements_of_operand(k, i));
    if (kind == DOT) status = count_product(k, w, &amount, dots);
    s->inner[kind < CHEAP ? kind : CHEAP] += amount;
    add_dots(s->dots, dots);
    if (kind == WHILE && called->count > 0 && status == TG_OK) {
        s->own[LOOPS]++;
        return note_call(k, w, called->items[0], trips_of(k->one.config), 1);
    }
    for (int64_t i = 0; kind == CALL && i < called->count && status == TG_OK; i++)
        status = note_call(k, w, called->items[i], 1, 0);
    if (kind == CALL || status != TG_OK) return status;
    return count_kernel(k, w, elements, kind, amount, dots);
}

/* Turn ids of operands into numbers of instructions. */
static tg_status resolve_operands(work *k, tg_wire w) {
    for (int64_t i = 0; i < k->one.operands.count; i++) {
        int64_t *item = &k->one.operands.items[i];
        const int64_t id = *item;
        *item = tg_id_map_find(&k->nodes, id);
        if (*item < 0)
            return tg_hlo_bad(k->r, w.at, "operands that are in this computation", TG_HLO_DAMAGED,
                              "operand id %lld in the instruction", (long long)id);
    }
    return TG_OK;
}

static tg_status value_of_next(work *k, tg_wire w) { return read_value(k, w, k->r->instruction); }

static tg_status count_next(work *k, tg_wire w) {
    tg_status status = read_instruction(k, w);
    if (status == TG_OK) status = resolve_operands(k, w);
    return status == TG_OK ? count(k, w, k->values[k->r->instruction].elements) : status;
}

/* Look at each instruction of a computation. */
static tg_status each_instruction(work *k, const tg_computation *c, tg_status (*look)(work *k, tg_wire w)) {
    static const tg_fields instructions = {[2] = TG_CONTENT};
    tg_hlo_reader *r = k->r;
    tg_wire w = c->message;
    tg_wire_field f;
    tg_status status = TG_OK;
    for (r->instruction = 0; status == TG_OK && tg_hlo_next(r, &w, instructions, &f) > 0;) {
        if (r->instruction == c->count) return tg_hlo_changed(r, f.tag);
        status = look(k, f.bytes);
        if (status == TG_OK) r->instruction++, status = tg_hlo_progress(r, w.at);
    }
    if (status != TG_OK) return status;
    if (r->instruction < c->count) return tg_hlo_changed(r, w.at);
    r->instruction = -1;
    return TG_OK;
}

static tg_status count_computation(work *k, const tg_computation *c) {
    if (c->count > k->room) {
        value *values = realloc(k->values, (size_t)c->count * sizeof *values);
        if (values == NULL) return tg_fail(k->r->err, TG_E_MEMORY, "no memory for the work of a program");
        k->values = values, k->room = c->count;
    }
    k->dimensions.count = 0;
    k->summaries[k->r->computation].first_call = k->calls.count;
    tg_status status = tg_id_map_reset(&k->nodes, c->count, k->r->err);
    if (status == TG_OK) status = each_instruction(k, c, value_of_next);
    return status == TG_OK ? each_instruction(k, c, count_next) : status;
}

/* From the entry on: how often each computation runs, and what that comes to. Callers stand behind what they call. */
static void add_up(work *k, int64_t entry, float *result) {
    double total[TG_WORK_COLUMNS] = {0};
    summary *start = &k->summaries[entry];
    start->is_reached = 1, start->times = start->most_times = 1;
    int64_t end = entry + 1 < k->graph->computations ? start[1].first_call : k->calls.count;
    for (int64_t place = entry; place >= 0; place--) {
        const summary *s = &k->summaries[place];
        for (int i = 0; i < TG_WORK_COLUMNS && s->is_reached; i++)
            total[i] = i == LARGEST ? fmax(total[i], s->own[i]) : fmin(total[i] + s->times * s->own[i], most);
        for (int64_t i = s->first_call; i < end && s->is_reached; i += 3) {
            const double trips = (double)k->calls.items[i + 1], from_here = s->most_times * trips;
            summary *called = &k->summaries[k->calls.items[i]];
            called->is_reached = 1;
            called->times = fmin(called->times + s->times * trips, most);
            called->most_times = fmin(fmax(called->most_times, from_here), most);
            if (k->calls.items[i + 2]) total[MOST_RUNS] = fmin(fmax(total[MOST_RUNS], from_here), most);
        }
        end = s->first_call;
    }
    for (int i = 0; i < TG_WORK_COLUMNS; i++) result[i] = (float)total[i];
}

int64_t tg_hlo_work_bytes(const tg_hlo_graph *graph) {
    return graph->computations * (int64_t)sizeof(summary);
}

tg_status tg_hlo_work(tg_hlo *hlo, const tg_hlo_graph *graph, float *result) {
    work k = {.r = &hlo->reader, .graph = graph};
    tg_status status = tg_hlo_find_places(k.r, graph, &k.places);
    k.summaries = calloc((size_t)graph->computations, sizeof *k.summaries);
    if (status == TG_OK && k.summaries == NULL)
        status = tg_fail(k.r->err, TG_E_MEMORY, "no memory for the work of a program");
    for (int64_t place = 0; place < graph->computations && status == TG_OK; place++) {
        k.r->computation = place;
        status = count_computation(&k, &graph->list[place]);
    }
    if (status == TG_OK) k.r->computation = -1;
    const int64_t entry = status == TG_OK ? tg_id_map_find(&k.places, graph->entry_id) : 0;
    if (entry < 0)
        status = tg_hlo_bad(k.r, graph->module.at, "an entry among its computations", TG_HLO_DAMAGED,
                            "computation id %lld, which none has", (long long)graph->entry_id);
    if (status == TG_OK) add_up(&k, entry, result);
    free(k.summaries), free(k.values);
    tg_id_map_free(&k.places), tg_id_map_free(&k.nodes);
    tg_ids_free(&k.dimensions), tg_ids_free(&k.calls);
    tg_ids_free(&k.one.operands), tg_ids_free(&k.one.called);
    for (int side = 0; side < 3; side++) tg_ids_free(&k.one.sides[side]);
    return status;
}
