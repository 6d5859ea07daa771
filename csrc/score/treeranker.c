#include "score/treeranker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "configs/sample.h"
#include "features/schema.h"
#include "score/described.h"
#include "score/network.h"
#include "trees/forest.h"

enum { MOST_ROUNDS = 1000000, MOST_SIZE = (16 << 20) - 1, MOST_BINS = 4096 };
enum { CELLS = 1 << 20 }; /* numbers of rows that are made at a time */
enum { STREAM = 7 };      /* of random numbers: TREES of tpugraphs/kernels/streams.py */

/* Trees of the graphs of one size: 0 nodes if configs are features, for all graphs. */
typedef struct part {
    int64_t nodes, config_nodes;
    tg_forest forest;
} part;

struct tg_treeranker {
    char kind; /* the first letter of "layout", "tile" or "graph" */
    int32_t rounds;
    int64_t bins, references; /* of trees that compare configs; of others 0 */
    uint64_t key;             /* which configs they compare with */
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

/* What trees that compare configs are made with. */
static tg_status take_pairs(tg_treeranker *r, const tg_json_value *root, tg_error *err) {
    const tg_json_value *fields = tg_json_find(root, "fields"),
                        *occurrence = tg_json_find(fields, "occurrence");
    int64_t seed = 0;
    if (occurrence == NULL || occurrence->kind != TG_JSON_LITERAL || occurrence->text[0] != 'f')
        return tg_described_wrong(err, "occurrence", "false", "score with Python", occurrence);
    tg_status status = take_whole(tg_json_find(fields, "bins"), "bins", 1, MOST_BINS, &r->bins, err);
    if (status == TG_OK)
        status =
            take_whole(tg_json_find(fields, "references"), "references", 1, MOST_ROUNDS, &r->references, err);
    if (status == TG_OK) status = take_whole(tg_json_find(root, "seed"), "seed", 0, INT64_MAX, &seed, err);
    r->key = tg_key(tg_key(tg_key(0, (uint64_t)seed), STREAM), UINT64_C(1) << 40);
    return status;
}

static tg_status take_recipe(tg_treeranker *r, const tg_json_value *root, tg_error *err) {
    const tg_json_value *recipe = tg_json_find(root, "recipe"), *graphs = tg_json_find(root, "graphs");
    const int pairs = tg_json_is(recipe, "eleventh-lightgbm");
    if (!pairs && !tg_json_is(recipe, "eighth-lightgbm"))
        return tg_described_wrong(err, "recipe", "a network, 'eighth-lightgbm' or 'eleventh-lightgbm'",
                                  "score with Python, which has the features of other trees", recipe);
    if (pairs && !tg_json_is(graphs, "layout"))
        return tg_described_wrong(err, "graphs", "'layout'", NULL, graphs);
    if (!tg_json_is(graphs, "layout") && !tg_json_is(graphs, "tile") && !tg_json_is(graphs, "graph"))
        return tg_described_wrong(err, "graphs", "'layout', 'tile' or 'graph'", NULL, graphs);
    r->kind = graphs->text[0];
    return pairs ? take_pairs(r, root, err) : TG_OK;
}

tg_status tg_treeranker_read(tg_treeranker **trees, const tg_json_value *root, const tg_safetensors *file,
                             tg_error *err) {
    const tg_json_value *list = tg_json_find(root, "boosters"), *entry;
    int64_t rounds = 0;
    *trees = NULL;
    if (list->kind != TG_JSON_ARRAY || list->count < 1)
        return tg_described_wrong(err, "boosters", "a list of trees", NULL, list);
    tg_treeranker *r = calloc(1, sizeof *r + (size_t)list->count * sizeof *r->part);
    if (r == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for trees");
    tg_status status = take_recipe(r, root, err);
    if (status == TG_OK)
        status = take_whole(tg_json_find(root, "rounds"), "rounds", 1, MOST_ROUNDS, &rounds, err);
    r->rounds = (int32_t)rounds;
    for (entry = list->first; status == TG_OK && entry != NULL; entry = entry->next, r->parts++)
        status = take_part(&r->part[r->parts], r->parts, entry, file, err);
    if (status == TG_OK && r->bins > 0 && r->part[0].forest.sigmoid == 0)
        status = tg_described_wrong(err, "objective", "binary, of pairs", NULL, NULL);
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

/* Rows of the configs numbered row[0..n), or of the first n if `row` is NULL; NULL with err. */
static float *table_of(const tg_layout_table *table, const tg_config_rows *c, const int64_t *row, int64_t n,
                       int64_t width, tg_error *err) {
    float *rows = malloc((size_t)(n * width) * sizeof *rows + 1);
    if (rows == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)n), NULL;
    for (int64_t i = 0; row != NULL && i < n; i++)
        tg_layout_table_rows(table, c->digits + row[i] * c->cells, 1, rows + i * width);
    if (row == NULL) tg_layout_table_rows(table, c->digits, n, rows);
    return rows;
}

/* By comparing each config with some, the same for all. */
static tg_status compare(const tg_treeranker *r, const tg_layout_table *table, const tg_config_rows *c,
                         int64_t n, float *scores, tg_error *err) {
    const int64_t width = tg_layout_table_width(r->bins), count = n < r->references ? n : r->references;
    const int64_t step = 1 + CELLS / width;
    int64_t *chosen = malloc((size_t)count * sizeof *chosen + 1);
    tg_status status = chosen == NULL ? tg_fail(err, TG_E_MEMORY, "no memory for %lld rows", (long long)count)
                                      : tg_sample(chosen, n, count, r->key, 1, NULL, err);
    float *others = status == TG_OK ? table_of(table, c, chosen, count, width, err) : NULL;
    if (status == TG_OK && others == NULL) status = TG_E_MEMORY;
    for (int64_t i = 0; status == TG_OK && i < n; i += step) {
        const int64_t size = n - i < step ? n - i : step;
        tg_config_rows some = *c;
        some.digits += i * c->cells;
        float *rows = table_of(table, &some, NULL, size, width, err);
        status = rows == NULL ? TG_E_MEMORY
                              : tg_forest_against(&r->part[0].forest, rows, size, others, count, width,
                                                  r->rounds, scores + i, NULL, err);
        free(rows);
    }
    free(others);
    free(chosen);
    return status;
}

static tg_status score_pairs(const tg_treeranker *r, const tg_layout_graph *g, const tg_config_rows *c,
                             int64_t n, float *scores, tg_error *err) {
    tg_layout_table *table;
    if (r->part[0].forest.width != 2 * tg_layout_table_width(r->bins))
        return tg_fail_field(err, "bins", "those of the table that the trees learnt from", "%lld",
                             (long long)r->bins);
    tg_status status = tg_layout_table_open(&table, g, r->bins, err);
    if (status == TG_OK && n > 0) status = compare(r, table, c, n, scores, err);
    tg_layout_table_free(table);
    return status;
}

tg_status tg_treeranker_scores(const tg_treeranker *r, const tg_layout_graph *g, const tg_config_rows *c,
                               int64_t n, float *scores, tg_error *err) {
    const tg_status status = check_configs(r, c, g->K, n, err);
    if (status != TG_OK) return status;
    if (r->bins > 0) return score_pairs(r, g, c, n, scores, err);
    const int sized = c->digits != NULL;
    const part *p = nearest(r, sized ? c->N : 0, sized ? g->K : 0);
    const int64_t width = tg_table_width(c), step = 1 + CELLS / (width + 1);
    if (p->nodes == 0 && p->config_nodes == 0 && width != p->forest.width)
        return tg_fail_field(err, "configs", "tables as wide as those that the trees learnt from",
                             "%lld columns, not %d", (long long)width, p->forest.width);
    return score_rows(r, p, c, n, step, scores, err);
}
