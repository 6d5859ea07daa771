#include "hlo/hlo.h"

#include <string.h>

static const tg_fields tuning_fields = {[1] = TG_CONTENT, [3] = TG_CONTENT, [4] = TG_NUMBERS};

enum { RUN = 3, CONFIG_NODES = 4, MOST_DIMS = 6 };

/* A ConfigProfile. */
typedef struct measured {
    tg_wire op_config, module_config, profile, tile, layout; /* `at` is NULL if it has none */
    int error, is_default;
    int64_t ns;
} measured;

/* The one message in field 1 of `w`, if there is one. */
static tg_status only_content(const tg_hlo_reader *r, tg_wire w, tg_wire *content) {
    tg_wire_field f;
    int more;
    while ((more = tg_hlo_next(r, &w, tg_content_of_1, &f)) > 0) *content = f.bytes;
    return more < 0 ? TG_E_DATA : TG_OK;
}

static tg_status read_profile(const tg_hlo_reader *r, tg_wire w, measured *run) {
    static const tg_fields known = {[4] = TG_NUMBER};
    tg_wire_field f;
    int more;
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) run->ns = (int64_t)f.value;
    return more < 0 ? TG_E_DATA : TG_OK;
}

static tg_status read_run(const tg_hlo_reader *r, tg_wire w, measured *run) {
    static const tg_fields known = {
        [1] = TG_CONTENT, [2] = TG_CONTENT, [3] = TG_NUMBER, [4] = TG_CONTENT, [5] = TG_NUMBER};
    tg_wire_field f;
    int more;
    memset(run, 0, sizeof *run);
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        if (f.number == 1) run->op_config = f.bytes;
        if (f.number == 2) run->module_config = f.bytes;
        if (f.number == 3) run->error = f.value != 0;
        if (f.number == 4) run->profile = f.bytes;
        if (f.number == 5) run->is_default = f.value != 0;
    }
    tg_status status = more < 0 ? TG_E_DATA : TG_OK;
    if (status == TG_OK && run->op_config.at != NULL) status = only_content(r, run->op_config, &run->tile);
    if (status == TG_OK && run->module_config.at != NULL)
        status = only_content(r, run->module_config, &run->layout);
    if (status == TG_OK && run->profile.at != NULL) status = read_profile(r, run->profile, run);
    return status;
}

/* Whether the extractor keeps the run. */
static int is_kept(const tg_hlo_graph *graph, const measured *run) {
    if (run->error) return 0;
    return graph->tile ? run->ns > 1 : run->module_config.at != NULL && run->profile.at != NULL;
}

/* ---- sizes ---- */

static tg_status wrong_nodes(const tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run) {
    tg_wire w = run->layout;
    tg_wire_field f;
    int64_t nodes = 0;
    int more;
    while ((more = tg_hlo_next(r, &w, tg_content_of_1, &f)) > 0) nodes++;
    if (more < 0) return TG_E_DATA;
    return tg_hlo_bad(r, run->module_config.at, "layouts of as many nodes as config_index_to_node has",
                      TG_HLO_DAMAGED, "%lld instead of %lld", (long long)nodes, (long long)graph->K);
}

static tg_status check_layout(const tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run) {
    /* A node takes two bytes at least: so no more memory is asked for than some multiple of the file. */
    if ((run->layout.end - run->layout.at) / 2 < graph->K) return wrong_nodes(r, graph, run);
    if (run->ns <= 0)
        return tg_hlo_bad(r, run->module_config.at, "a time > 0 of a run without error",
                          "mark it as an error", "compute_time_ns %lld", (long long)run->ns);
    return TG_OK;
}

/* Go through all runs: `look` at every one. */
static tg_status each_run(tg_hlo_reader *r, const tg_hlo_graph *graph,
                          tg_status (*look)(tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run,
                                            void *context),
                          void *context) {
    tg_wire w = graph->tuning;
    tg_wire_field f;
    tg_status status = TG_OK;
    measured run;
    r->run = -1;
    while (status == TG_OK && tg_hlo_next(r, &w, tuning_fields, &f) > 0) {
        if (f.number != RUN) continue;
        r->run++;
        status = read_run(r, f.bytes, &run);
        if (status == TG_OK) status = look(r, graph, &run, context);
        if (status == TG_OK) status = tg_hlo_progress(r, w.at);
    }
    if (status == TG_OK) r->run = -1;
    return status;
}

typedef struct counts {
    int64_t modules, tiles, neither, kept;
    int has_default;
} counts;

static tg_status count_kinds(tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run,
                             void *context) {
    (void)r, (void)graph;
    counts *c = context;
    c->modules += run->module_config.at != NULL;
    c->tiles += run->tile.at != NULL;
    c->neither += run->module_config.at == NULL && run->tile.at == NULL;
    return TG_OK;
}

static tg_status count_kept(tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run, void *context) {
    counts *c = context;
    if (!is_kept(graph, run)) return TG_OK;
    c->kept++;
    c->has_default |= run->is_default;
    return graph->tile ? TG_OK : check_layout(r, graph, run);
}

/* Count runs and configurable nodes; whatever is malformed is found here. */
static tg_status count_fields(const tg_hlo_reader *r, tg_hlo_graph *graph) {
    tg_wire w = graph->tuning;
    tg_wire_field f;
    int more;
    while ((more = tg_hlo_next(r, &w, tuning_fields, &f)) > 0) {
        uint64_t x;
        int item = 0;
        if (f.number == RUN) graph->runs++;
        while (f.number == CONFIG_NODES && (item = tg_wire_number(&f.bytes, &x)) > 0) graph->K++;
        if (item < 0) return tg_hlo_fault(r, &f.bytes, item);
    }
    return more < 0 ? TG_E_DATA : TG_OK;
}

tg_status tg_hlo_measure_runs(tg_hlo_reader *r, tg_hlo_graph *graph) {
    counts c = {0};
    graph->K = graph->C = graph->runs = 0;
    graph->tile = 0;
    graph->unusable = NULL;
    tg_status status = count_fields(r, graph);
    if (status == TG_OK) status = each_run(r, graph, count_kinds, &c);
    if (status != TG_OK || graph->runs == 0) return status;
    if (c.tiles > 0 && (c.modules > 0 || graph->K > 0))
        return tg_hlo_bad(r, graph->tuning.at, "runs with layouts or with tile sizes", TG_HLO_DAMAGED,
                          "%lld with tile sizes among those of a layout graph", (long long)c.tiles);
    graph->tile = c.tiles > 0;
    status = each_run(r, graph, count_kept, &c);
    if (status != TG_OK) return status;
    if (graph->tile && graph->runs < 2) graph->unusable = "there is only one";
    else if (graph->tile && c.neither > 0) graph->unusable = "one has no tile sizes";
    else if (c.kept == 0) graph->unusable = "none of them has a config, a time and no error";
    else if (!c.has_default) graph->unusable = "none without error is marked as the default";
    graph->C = graph->unusable == NULL ? c.kept : 0;
    return TG_OK;
}

/* ---- contents ---- */

typedef struct cursor {
    int64_t config; /* the next to be written */
    int64_t normalizer;
} cursor;

/* The usual tensor: one packed list of a few digits, one byte each. */
static inline int read_short_dims(tg_wire w, int8_t *digits) {
    const int64_t count = w.end - w.at - 2;
    if (count < 0 || count > MOST_DIMS || w.at[0] != (1 << 3 | TG_BYTES) || w.at[1] != count) return 0;
    for (int64_t i = 0; i < count; i++) {
        if (w.at[2 + i] > TG_DIGIT_MAX) return 0;
        digits[i] = (int8_t)w.at[2 + i];
    }
    return 1;
}

/* Six columns of a tensor's layout, from dims; they hold -1. */
static tg_status read_dims(tg_hlo_reader *r, tg_wire w, int8_t *digits) {
    static const tg_fields known = {[1] = TG_NUMBERS};
    tg_wire_field f;
    int count = 0, more;
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        uint64_t x;
        int item;
        while ((item = tg_wire_number(&f.bytes, &x)) > 0 && count < MOST_DIMS) {
            const int32_t digit = (int32_t)(uint32_t)x;
            if (digit < TG_DIGIT_MIN || digit > TG_DIGIT_MAX)
                return tg_hlo_bad(r, f.tag, "dimensions in -1..5", TG_HLO_DAMAGED, "%d", (int)digit);
            digits[count++] = (int8_t)digit;
        }
        if (item < 0) return tg_hlo_fault(r, &f.bytes, item);
    }
    return more < 0 ? TG_E_DATA : TG_OK;
}

/* digits (18) of a node. */
static tg_status read_node(tg_hlo_reader *r, tg_wire node, int8_t *digits) {
    tg_wire_field tensor;
    int more;
    memset(digits, TG_DIGIT_MIN, TG_DIGITS);
    r->tensor = 0;
    while ((more = tg_hlo_next(r, &node, tg_content_of_1, &tensor)) > 0) {
        if (r->tensor == TG_TENSORS)
            return tg_hlo_bad(r, tensor.tag, "layouts of at most three tensors", TG_HLO_DAMAGED, "more");
        int8_t *to = digits + r->tensor++ * TG_LAYOUT_DIGITS;
        if (read_short_dims(tensor.bytes, to)) continue;
        r->tensor--;
        const tg_status status = read_dims(r, tensor.bytes, to);
        if (status != TG_OK) return status;
        r->tensor++;
    }
    r->tensor = -1;
    return more < 0 ? TG_E_DATA : TG_OK;
}

/* digits (K,18) of a config. */
static tg_status read_layout(tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run,
                             int8_t *digits) {
    tg_wire w = run->layout;
    tg_wire_field node;
    tg_status status = TG_OK;
    int more = 1;
    for (r->node = 0; status == TG_OK && (more = tg_hlo_next(r, &w, tg_content_of_1, &node)) > 0; r->node++) {
        if (r->node == graph->K) break;
        status = read_node(r, node.bytes, digits + r->node * TG_DIGITS);
    }
    if (status != TG_OK || more < 0) return TG_E_DATA;
    const int64_t nodes = r->node;
    r->node = -1;
    return more > 0 || nodes < graph->K ? wrong_nodes(r, graph, run) : TG_OK;
}

/* Three lists of bounds, each with sum and product of all, which is 0 for an empty one. */
static tg_status read_tile(const tg_hlo_reader *r, tg_wire w, float *row) {
    static const tg_fields known = {[1] = TG_NUMBERS, [2] = TG_NUMBERS, [3] = TG_NUMBERS};
    enum { LISTS = 3, WIDTH = TG_TILE_FEATURES / LISTS };
    int64_t count[LISTS] = {0};
    uint64_t sum[LISTS] = {0}, product[LISTS] = {0};
    tg_wire_field f;
    int more;
    memset(row, 0, TG_TILE_FEATURES * sizeof *row);
    while ((more = tg_hlo_next(r, &w, known, &f)) > 0) {
        const int list = (int)f.number - 1;
        uint64_t x;
        int item;
        while ((item = tg_wire_number(&f.bytes, &x)) > 0) {
            if (count[list] < WIDTH - 2) row[list * WIDTH + count[list]] = (float)(int64_t)x;
            sum[list] += x;
            product[list] = count[list]++ == 0 ? x : product[list] * x;
        }
        if (item < 0) return tg_hlo_fault(r, &f.bytes, item);
    }
    for (int list = 0; list < LISTS; list++) {
        row[list * WIDTH + WIDTH - 2] = (float)(int64_t)sum[list];
        row[list * WIDTH + WIDTH - 1] = (float)(int64_t)product[list];
    }
    return more < 0 ? TG_E_DATA : TG_OK;
}

static tg_status write_run(tg_hlo_reader *r, const tg_hlo_graph *graph, const measured *run, void *context) {
    cursor *to = context;
    if (!is_kept(graph, run)) return TG_OK;
    if (to->config == graph->C) return tg_hlo_changed(r, r->start);
    const int64_t config = to->config++;
    graph->config_runtime[config] = run->ns;
    if (run->is_default && to->normalizer == 0) to->normalizer = run->ns;
    if (graph->tile) return read_tile(r, run->tile, graph->config_feat + config * TG_TILE_FEATURES);
    return read_layout(r, graph, run, graph->node_config_feat + config * graph->K * TG_DIGITS);
}

static tg_status read_config_nodes(const tg_hlo_reader *r, const tg_hlo_graph *graph, tg_id_map *known) {
    tg_wire w = graph->tuning;
    tg_wire_field f;
    int64_t number = 0;
    const tg_status status = tg_id_map_reset(known, graph->K, r->err);
    while (status == TG_OK && tg_hlo_next(r, &w, tuning_fields, &f) > 0) {
        uint64_t x;
        for (; f.number == CONFIG_NODES && tg_wire_number(&f.bytes, &x) > 0; number++) {
            if (number == graph->K) return tg_hlo_changed(r, f.tag);
            if (x >= (uint64_t)graph->N)
                return tg_hlo_bad(r, f.tag, "node numbers below the number of instructions", TG_HLO_DAMAGED,
                                  "config_index_to_node %lld: %llu of %lld", (long long)number,
                                  (unsigned long long)x, (long long)graph->N);
            if (tg_id_map_add(known, (int64_t)x, number) >= 0)
                return tg_hlo_bad(r, f.tag, "every node once", TG_HLO_DAMAGED,
                                  "node %llu twice in config_index_to_node", (unsigned long long)x);
            graph->node_config_ids[number] = (int64_t)x;
        }
    }
    return status == TG_OK && number < graph->K ? tg_hlo_changed(r, w.at) : status;
}

tg_status tg_hlo_read_runs(tg_hlo_reader *r, tg_hlo_graph *graph) {
    cursor to = {0};
    tg_id_map known = {0};
    tg_status status = read_config_nodes(r, graph, &known);
    tg_id_map_free(&known);
    if (status != TG_OK || graph->C == 0) return status;
    status = each_run(r, graph, write_run, &to);
    if (status == TG_OK && (to.config < graph->C || to.normalizer == 0))
        return tg_hlo_changed(r, graph->tuning.at);
    for (int64_t i = 0; i < graph->C && status == TG_OK; i++) graph->runtime_normalizers[i] = to.normalizer;
    return status;
}
