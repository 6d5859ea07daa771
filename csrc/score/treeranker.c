#include "score/treeranker.h"

#include <stdio.h>
#include <stdlib.h>

#include "features/schema.h"
#include "score/described.h"
#include "score/network.h"
#include "trees/forest.h"

enum {
    MOST_ROUNDS = 1000000,
    MOST_SIZE = (16 << 20) - 1,
    CELLS = 1 << 20
}; /* numbers of rows that are made at a time */

/* Trees of the graphs of one size: 0 nodes if configs are features, for all graphs. */
typedef struct part {
    int64_t nodes, config_nodes;
    tg_forest forest;
} part;

struct tg_treeranker {
    char kind; /* the first letter of "layout", "tile" or "graph" */
    int32_t rounds;
    int parts;
    part part[];
};

/* ---- file ---- */

static tg_status take_whole(const tg_json_value *value, const char *field, int64_t low, int64_t high,
                            int64_t *to, tg_error *err) {
    char expected[80];
    if (value != NULL && value->is_whole && value->whole >= low && value->whole <= high) {
        *to = value->whole;
        return TG_OK;
    }
    snprintf(expected, sizeof expected, "a whole number in %lld..%lld", (long long)low, (long long)high);
    return tg_described_wrong(err, field, expected, NULL, value);
}

static tg_status take_columns(const tg_safetensors *file, int number, int64_t **columns, int64_t *n,
                              tg_error *err) {
    char name[32];
    snprintf(name, sizeof name, "%d.columns", number);
    const tg_tensor *t = tg_safetensors_find(file, name);
    if ((t = tg_network_tensor(file, name, TG_DTYPE_I64, t == NULL ? 0 : t->count, 0, err)) == NULL)
        return TG_E_DATA;
    *n = t->count;
    *columns = malloc((size_t)t->memory + 1);
    if (*columns == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for columns");
    return tg_safetensors_read(file, t, *columns, err);
}

static tg_status take_part(part *p, int number, const tg_json_value *entry, const tg_safetensors *file,
                           tg_error *err) {
    const tg_json_value *size = tg_json_find(entry, "size"), *text = tg_json_find(entry, "trees");
    int64_t width = 0, n = 0, *columns = NULL;
    if (size == NULL || size->kind != TG_JSON_ARRAY || size->count != 2)
        return tg_described_wrong(err, "size", "two whole numbers", NULL, size);
    tg_status status = take_whole(size->first, "size", 0, MOST_SIZE, &p->nodes, err);
    if (status == TG_OK) status = take_whole(size->first->next, "size", 0, MOST_SIZE, &p->config_nodes, err);
    if (status == TG_OK)
        status = take_whole(tg_json_find(entry, "width"), "width", 1, MOST_SIZE, &width, err);
    if (status == TG_OK && (text == NULL || text->kind != TG_JSON_STRING))
        status = tg_described_wrong(err, "trees", "a text of LightGBM", NULL, text);
    if (status == TG_OK) status = take_columns(file, number, &columns, &n, err);
    if (status == TG_OK)
        status = tg_forest_read(&p->forest, text->text, text->size, columns, n, (int32_t)width, err);
    free(columns);
    return status;
}

static tg_status take_kind(const tg_json_value *root, char *kind, tg_error *err) {
    const tg_json_value *recipe = tg_json_find(root, "recipe"), *graphs = tg_json_find(root, "graphs");
    if (!tg_json_is(recipe, "eighth-lightgbm"))
        return tg_described_wrong(err, "recipe", "a network, or 'eighth-lightgbm'",
                                  "score with Python, which has the features of other trees", recipe);
    if (!tg_json_is(graphs, "layout") && !tg_json_is(graphs, "tile") && !tg_json_is(graphs, "graph"))
        return tg_described_wrong(err, "graphs", "'layout', 'tile' or 'graph'", NULL, graphs);
    *kind = graphs->text[0];
    return TG_OK;
}

tg_status tg_treeranker_read(tg_treeranker **trees, const tg_json_value *root, const tg_safetensors *file,
                             tg_error *err) {
    const tg_json_value *list = tg_json_find(root, "boosters"), *entry;
    int64_t rounds = 0;
    char kind = 0;
    *trees = NULL;
    tg_status status = take_kind(root, &kind, err);
    if (status == TG_OK)
        status = take_whole(tg_json_find(root, "rounds"), "rounds", 1, MOST_ROUNDS, &rounds, err);
    if (status == TG_OK && (list->kind != TG_JSON_ARRAY || list->count < 1))
        status = tg_described_wrong(err, "boosters", "a list of trees", NULL, list);
    if (status != TG_OK) return status;
    tg_treeranker *r = calloc(1, sizeof *r + (size_t)list->count * sizeof *r->part);
    if (r == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for trees");
    r->kind = kind, r->rounds = (int32_t)rounds;
    for (entry = list->first; status == TG_OK && entry != NULL; entry = entry->next, r->parts++)
        status = take_part(&r->part[r->parts], r->parts, entry, file, err);
    if (status == TG_OK) *trees = r;
    else tg_treeranker_free(r);
    return status;
}

void tg_treeranker_free(tg_treeranker *r) {
    for (int i = 0; r != NULL && i < r->parts; i++) tg_forest_free(&r->part[i].forest);
    free(r);
}

/* ---- scores ---- */

static tg_status check_configs(const tg_treeranker *r, const tg_config_rows *c, int64_t config_nodes,
                               int64_t n, tg_error *err) {
    static const char expected[] = "configs of the kind that the ranker learnt from";
    const int layout = r->kind == 'l', tile = r->kind == 't';
    if ((layout || tile) &&
        (c->F != TG_NODE_FEATURES || (c->digits != NULL) != layout || (c->config_feat != NULL) != tile))
        return tg_fail_field(err, "configs", expected, "others");
    if (tile && c->T != TG_TILE_FEATURES)
        return tg_fail_field(err, "configs", expected, "%lld columns", (long long)c->T);
    if (!layout) return TG_OK;
    if (c->cells != config_nodes * TG_DIGITS)
        return tg_fail_field(err, "configs", expected, "%lld digits", (long long)c->cells);
    for (int64_t i = 0; i < n * c->cells; i++)
        if (c->digits[i] < TG_DIGIT_MIN || c->digits[i] > TG_DIGIT_MAX)
            return tg_fail_field(err, "configs", "digits in -1..5", "%d", c->digits[i]);
    return TG_OK;
}

/* The trees of the nearest size; if several are equally near, the first. */
static const part *nearest(const tg_treeranker *r, int64_t nodes, int64_t config_nodes) {
    const part *best = NULL;
    double least = 0;
    for (int i = 0; i < r->parts; i++) {
        const part *p = &r->part[i];
        const double off =
            (double)llabs(p->nodes - nodes) / (double)(nodes > 1 ? nodes : 1) +
            (double)llabs(p->config_nodes - config_nodes) / (double)(config_nodes > 1 ? config_nodes : 1);
        if (best == NULL || off < least) best = p, least = off;
    }
    return best;
}

/* scores(n), at most `step` at a time. */
static tg_status score_rows(const tg_treeranker *r, const part *p, const tg_config_rows *c, int64_t n,
                            int64_t step, float *scores, tg_error *err) {
    const int64_t width = tg_table_width(c);
    float *shared = malloc((size_t)(tg_table_shared(c) + 1) * sizeof *shared),
          *rows = malloc((size_t)(step * width + 1) * sizeof *rows);
    double *sums = malloc((size_t)step * sizeof *sums);
    tg_status status = shared == NULL || rows == NULL || sums == NULL
                           ? tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)step)
                           : TG_OK;
    if (status == TG_OK) tg_table_graph(c, shared);
    for (int64_t i = 0; status == TG_OK && i < n; i += step) {
        const int64_t size = n - i < step ? n - i : step;
        tg_table_rows(c, shared, i, size, rows);
        status = tg_forest_sums(&p->forest, rows, size, width, r->rounds, sums, NULL, err);
        for (int64_t j = 0; status == TG_OK && j < size; j++) scores[i + j] = (float)sums[j];
    }
    free(sums);
    free(rows);
    free(shared);
    return status;
}

tg_status tg_treeranker_scores(const tg_treeranker *r, const tg_config_rows *c, int64_t config_nodes,
                               int64_t n, float *scores, tg_error *err) {
    const tg_status status = check_configs(r, c, config_nodes, n, err);
    if (status != TG_OK) return status;
    const int sized = c->digits != NULL;
    const part *p = nearest(r, sized ? c->N : 0, sized ? config_nodes : 0);
    const int64_t width = tg_table_width(c), step = 1 + CELLS / (width + 1);
    if (p->nodes == 0 && p->config_nodes == 0 && width != p->forest.width)
        return tg_fail_field(err, "configs", "tables as wide as those that the trees learnt from",
                             "%lld columns, not %d", (long long)width, p->forest.width);
    return score_rows(r, p, c, n, step, scores, err);
}
