#include "clib/clib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/source.h"
#include "features/schema.h"
#include "score/described.h"
#include "score/digests.h"

enum { VERSION = 1, FEATURE_SCHEMA = 1, MOST_CHUNK = 1 << 20 };

/* ---- metadata ---- */

/* The number under `name` is that of the format that is read here. */
static tg_status check_version(const tg_json_value *root, const char *name, int64_t version, tg_error *err) {
    const tg_json_value *value = tg_json_find(root, name);
    char expected[32];
    if (value != NULL && value->is_whole && value->whole == version) return TG_OK;
    snprintf(expected, sizeof expected, "%lld", (long long)version);
    return tg_described_wrong(err, name, expected, "use the version of tpugraphs that wrote it", value);
}

/* The whole number in low..high under `name`. */
static tg_status take_whole(const tg_json_value *object, const char *name, int64_t low, int64_t high,
                            int64_t *to, tg_error *err) {
    const tg_json_value *value = tg_json_find(object, name);
    char expected[80];
    if (value != NULL && value->is_whole && value->whole >= low && value->whole <= high) {
        *to = value->whole;
        return TG_OK;
    }
    snprintf(expected, sizeof expected, "a whole number in %lld..%lld", (long long)low, (long long)high);
    return tg_described_wrong(err, name, expected, NULL, value);
}

static tg_status take_precision(const tg_json_value *value, int *precision, tg_error *err) {
    *precision = value != NULL && value->kind == TG_JSON_STRING ? tg_find_precision(value->text) : -1;
#ifdef TG_NO_BF16
    if (*precision != TG_F32)
        return tg_described_wrong(err, "precision", "'f32'", "compile the library for this ranker, too",
                                  value);
#endif
    return *precision >= 0 ? TG_OK : tg_described_wrong(err, "precision", "'f32' or 'bf16'", NULL, value);
}

/* Digits of the configurable nodes of a schema. */
static tg_status take_digits(tg_ranker *r, const tg_json_value *schema, tg_error *err) {
    const tg_json_value *digits = tg_json_find(schema, "digits");
    if (digits == NULL || digits->kind != TG_JSON_ARRAY || digits->count > TG_MOST_DIGITS)
        return tg_described_wrong(err, "schema", "a list of at most 64 'digits'", NULL, digits);
    r->own_digits = 1;
    r->digits = r->digit_rows = 0;
    for (const tg_json_value *v = digits->first; v != NULL; v = v->next) {
        int64_t values = 0;
        const tg_status status = take_whole(v, "values", 2, TG_MOST_DIGIT_VALUES, &values, err);
        if (status != TG_OK) return status;
        const tg_json_value *name = tg_json_find(v, "name");
        if (name != NULL && name->kind == TG_JSON_STRING) {
            if ((r->digit_names[r->digits] = malloc(name->size + 1)) == NULL)
                return tg_fail(err, TG_E_MEMORY, "no memory for names");
            memcpy(r->digit_names[r->digits], name->text, name->size + 1);
        }
        r->digit_values[r->digits++] = (int8_t)values;
        if (r->digit_rows < values + 2) r->digit_rows = (int)values + 2;
    }
    return TG_OK;
}

static const char *const KINDS[] = {"gaussian-process", "multi-task-gaussian-process"};
static int is_process(const tg_json_value *kind) {
    return tg_json_is(kind, KINDS[0]) || tg_json_is(kind, KINDS[1]);
}

static tg_status check_file(const tg_json_value *root, tg_error *err) {
    const tg_json_value *kind = tg_json_find(root, "kind");
    if (is_process(kind)) return check_version(root, "version", VERSION, err);
    if (!tg_json_is(kind, "ranker"))
        return tg_described_wrong(err, "kind", "'ranker'", "give the file of a ranker", kind);
    const tg_status status = check_version(root, "version", VERSION, err);
    return status == TG_OK ? check_version(root, "feature_schema", FEATURE_SCHEMA, err) : status;
}

static tg_status take_metadata(tg_ranker *r, const tg_json_value *root, tg_error *err) {
    const tg_json_value *schema = tg_json_find(root, "schema"), *extra = tg_json_find(root, "extra");
    tg_status status = TG_OK;
    if (extra != NULL)
        status = tg_described_wrong(err, "extra", "no features that a Python function makes",
                                    "score with Python, or train on graphs that hold them", extra);
    if (status == TG_OK) status = take_precision(tg_json_find(root, "precision"), &r->precision, err);
    if (status == TG_OK)
        status = take_whole(tg_json_find(root, "fields"), "chunk", 1, MOST_CHUNK, &r->chunk, err);
    r->digits = TG_DIGITS;
    r->digit_rows = TG_DIGIT_STATES;
    if (status == TG_OK && schema != NULL) status = take_digits(r, schema, err);
    return status;
}

/* ---- opening ---- */

static tg_status make_any(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root, tg_error *err);

/* What the preprocessing has learnt. */
static tg_status read_state(tg_program *p, const char *before, const tg_safetensors *file, tg_error *err) {
    for (int i = 0; i < p->n; i++)
        for (int s = 0; s < p->use[i].n_states; s++) {
            const tg_step_state *state = &p->use[i].state[s];
            char name[96];
            snprintf(name, sizeof name, "%s%s", before, state->name);
            const tg_tensor *t =
                tg_network_tensor(file, name, state->whole ? TG_DTYPE_I64 : TG_DTYPE_F64, state->n, 0, err);
            if (t == NULL) return TG_E_DATA;
            const tg_status status = tg_safetensors_read(file, t, state->data, err);
            if (status != TG_OK) return status;
        }
    return tg_program_restored(p, err);
}

/* The prepared columns of a table. */
static int columns(const tg_ranker *r, tg_table table) {
    return r->program.after.cols[table] < 0 ? 0 : r->program.after.cols[table];
}

static tg_status take_program(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                              const char *before, tg_error *err) {
    if (!r->own_digits) r->program.node_features = TG_NODE_FEATURES;
    tg_status status = tg_program_read(&r->program, tg_json_find(root, "preprocessing"), err);
    if (status == TG_OK) status = read_state(&r->program, before, file, err);
    r->tile = !r->own_digits && columns(r, TG_TABLE_CONFIG) > 0;
    if (status == TG_OK) status = tg_take_names(r, tg_json_find(root, "schema"), err);
    return status == TG_OK ? tg_take_fill(r, err) : status;
}

#ifdef TG_NETWORKS_ONLY /* a library that was compiled for some networks alone */
static void free_others(tg_ranker *r) { (void)r; }

static tg_status make_other(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root, int *made,
                            tg_error *err) {
    const tg_json_value *kind = tg_json_find(root, "kind");
    (void)r, (void)file;
    *made = tg_json_find(root, "boosters") != NULL || is_process(kind);
    if (!*made) return TG_OK;
    return tg_described_wrong(err, "kind", "a network", "compile the library for this ranker, too", kind);
}
#else
/* Trees say what graphs they are for; only those of the kind "graph" have a schema. */
static tg_status make_trees(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                            tg_error *err) {
    const tg_json_value *schema = tg_json_find(root, "schema");
    tg_status status = tg_treeranker_read(&r->trees, root, file, err);
    r->tile = tg_json_is(tg_json_find(root, "graphs"), "tile");
    r->digits = TG_DIGITS;
    r->digit_rows = TG_DIGIT_STATES;
    if (status == TG_OK && schema != NULL) status = take_digits(r, schema, err);
    return status == TG_OK ? tg_take_names(r, schema, err) : status;
}

/* The ranker inside another's file: its tensors' names begin with "0.". */
static tg_status make_base(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                           tg_error *err) {
    char before[8];
    const char *outside = file->before == NULL ? "" : file->before;
    if (snprintf(before, sizeof before, "%s0.", outside) >= (int)sizeof before)
        return tg_described_wrong(err, "members", "at most three rankers inside each other", NULL, NULL);
    if ((r->base = tg_heap_take(&r->heap, sizeof *r->base)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a ranker");
    memset((void *)r->base, 0, sizeof *r->base);
    r->base->heap = r->heap;
    r->base->references = r->base->threads = 1;
    tg_safetensors own = *file;
    own.before = before;
    const tg_json_value *kind = tg_json_find(root, "kind");
    if (kind != NULL && !is_process(kind))
        return tg_described_wrong(err, "members", "a network, trees or a Gaussian process",
                                  "score with Python", kind);
    const tg_status status =
        kind == NULL ? check_version(root, "feature_schema", FEATURE_SCHEMA, err) : TG_OK;
    return status == TG_OK ? make_any(r->base, &own, root, err) : status;
}

static tg_status make_process(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                              tg_error *err) {
    const tg_json_value *members = tg_json_find(root, "members"), *schema = tg_json_find(root, "schema");
    if (members == NULL || members->kind != TG_JSON_ARRAY || members->count > 1)
        return tg_described_wrong(err, "members", "a list of at most one base", NULL, members);
    tg_status status = take_digits(r, schema, err);
    if (status == TG_OK) status = take_whole(root, "seed", 0, INT64_MAX, &r->seed, err);
    if (status == TG_OK) status = take_program(r, file, root, "pipeline.", err);
    if (status == TG_OK && members->count > 0) status = make_base(r, file, members->first, err);
    const int cols = columns(r, TG_TABLE_CONFIG) + (r->base != NULL);
    return status == TG_OK ? tg_process_read(&r->process, file, cols, err) : status;
}

/* A process over programs, which are described by their prepared features, or by their opcodes. */
static tg_status make_tasks(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                            tg_error *err) {
    const tg_json_value *schema = tg_json_find(root, "schema"),
                        *opcodes = schema == NULL ? NULL : tg_json_find(schema, "opcodes");
    int64_t described = 0;
    tg_status status = take_digits(r, schema, err);
    if (status == TG_OK) status = take_program(r, file, root, "pipeline.", err);
    if (status == TG_OK && columns(r, TG_TABLE_GRAPH) > 0) described = columns(r, TG_TABLE_GRAPH);
    else if (status == TG_OK && opcodes != NULL && opcodes->kind == TG_JSON_NUMBER)
        status = take_whole(schema, "opcodes", 1, 256, &described, err);
    r->described = (int)described;
    return status == TG_OK ? tg_tasks_read(&r->tasks, file, r->described, columns(r, TG_TABLE_CONFIG), err)
                           : status;
}

static void free_others(tg_ranker *r) {
    tg_treeranker_free(r->trees);
    tg_tasks_free(r->tasks);
    tg_process_free(r->process);
    tg_ranker_close(r->base);
}

/* Rankers that are no networks; *made: it is one of them. */
static tg_status make_other(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root, int *made,
                            tg_error *err) {
    const tg_json_value *kind = tg_json_find(root, "kind");
    const int trees = tg_json_find(root, "boosters") != NULL;
    *made = trees || is_process(kind);
    if (is_process(kind))
        return tg_json_is(kind, KINDS[0]) ? make_process(r, file, root, err) : make_tasks(r, file, root, err);
    const tg_status status = trees ? make_trees(r, file, root, err) : TG_OK;
    return trees && status == TG_OK ? tg_take_fill(r, err) : status;
}
#endif

static tg_status make_any(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root,
                          tg_error *err) {
    int made = 0;
    tg_status status = make_other(r, file, root, &made, err);
    if (made) return status;
    if (status == TG_OK) status = take_metadata(r, root, err);
    if (status == TG_OK) status = take_program(r, file, root, "", err);
    if (status != TG_OK) return status;
    const tg_network_sizes sizes = {columns(r, TG_TABLE_NODE), columns(r, TG_TABLE_CONFIG),
                                    columns(r, TG_TABLE_GRAPH), r->digits, r->digit_rows};
    return tg_network_read(&r->model, tg_json_find(root, "steps"), &sizes, file, err);
}

tg_status tg_ranker_make(tg_ranker *r, const tg_safetensors *file, const tg_json_value *root, tg_error *err) {
    const tg_status status = check_file(root, err);
    return status == TG_OK ? make_any(r, file, root, err) : status;
}

static tg_status read_file(tg_ranker *r, const tg_safetensors *file, tg_error *err) {
    tg_json_tree tree;
    for (int i = 0; i < file->notes; i++) {
        const tg_note *note = &file->note[i];
        if (strcmp(note->key.bytes, "tpugraphs") != 0) continue;
        tg_status status = tg_json_read(&tree, "metadata", note->value.bytes, note->value.size, err);
        if (status == TG_OK) status = tg_digests_check(file, note->value, tree.root, err);
        if (status == TG_OK) status = tg_ranker_make(r, file, tree.root, err);
        tg_json_free(&tree);
        return status;
    }
    return tg_described_wrong(err, "metadata", "the key 'tpugraphs', as Ranker.save writes it",
                              "give the file of a ranker", NULL);
}

tg_status tg_in_file(const char *path, tg_status status, tg_error *err) {
    if (status != TG_E_IO && status != TG_E_MEMORY) status = TG_E_CHECKPOINT;
    if (err == NULL) return status;
    tg_error inner = *err;
    err->code = status;
    const int damaged =
        inner.code == TG_E_CONFIG || inner.code == TG_E_RECIPE; /* a mistake of a caller elsewhere */
    snprintf(err->message, sizeof err->message, "%.200s: %.380s%s%.60s", path, inner.message,
             inner.sys_errno != 0 ? ": "
             : damaged            ? "; the file is damaged or was changed: write it again"
                                  : "",
             inner.sys_errno != 0 ? strerror(inner.sys_errno) : "");
    tg_error_printable(err);
    return status;
}

/* The ranker in `source`, which is closed. */
static tg_status read_source(tg_ranker *r, const char *path, tg_source *source, tg_error *err) {
    tg_safetensors file = {.count = 0};
    tg_status status = tg_safetensors_open(&file, *source, err);
    if (status == TG_OK) status = read_file(r, &file, err);
    tg_safetensors_close(&file);
    return status == TG_OK ? TG_OK : tg_in_file(path, status, err);
}

tg_status tg_ranker_new(const tg_options *given, tg_ranker **ranker, tg_message *message) {
    tg_options o = {.size = sizeof o};
    if (given != NULL && !tg_take_struct(&o, sizeof o, given, sizeof o.size))
        return tg_argument(message, "options", "a struct that begins with its size");
    if ((o.allocate == NULL) != (o.release == NULL))
        return tg_argument(message, "options", "both of allocate and release, or neither");
    const tg_heap heap = {o.allocate, o.release, o.memory_context};
    const tg_spread spread = {1, o.execute, o.execute_context};
    tg_ranker *r = tg_heap_take(&heap, sizeof *r);
    if (r == NULL) return tg_no_memory(message);
    memset((void *)r, 0, sizeof *r);
    r->heap = heap;
    r->spread = spread;
    r->references = 1;
    r->threads = o.threads;
    *ranker = r;
    return TG_OK;
}

/* From a file (bytes NULL) or memory. */
static tg_status open_any(const char *path, const void *bytes, size_t size, const tg_options *options,
                          tg_ranker **ranker, tg_message *message) {
    tg_source source = {.fd = -1, .bytes = bytes, .size = (int64_t)size};
    tg_scope scope;
    tg_status status = tg_ranker_new(options, ranker, message);
    if (status != TG_OK) return status;
    tg_scope_begin(&scope, &(*ranker)->heap, &(*ranker)->spread, 1);
    if (bytes == NULL) status = tg_source_open(path, "a ranker file", &source, NULL, &scope.err);
    if (status == TG_OK) status = read_source(*ranker, path, &source, &scope.err);
    else status = tg_in_file(path, status, &scope.err);
    if (bytes == NULL) tg_source_close(&source);
    status = tg_scope_end(&scope, status, message);
    if (status != TG_OK) tg_ranker_close(*ranker), *ranker = NULL;
    return status;
}

tg_status tg_ranker_open(const char *path, const tg_options *options, tg_ranker **ranker,
                         tg_message *message) {
    if (ranker == NULL) return tg_argument(message, "ranker", "a place for the ranker");
    *ranker = NULL;
    if (path == NULL) return tg_argument(message, "path", "the path of a ranker file");
    return open_any(path, NULL, 0, options, ranker, message);
}

tg_status tg_ranker_open_memory(const void *bytes, size_t size, const tg_options *options, tg_ranker **ranker,
                                tg_message *message) {
    if (ranker == NULL) return tg_argument(message, "ranker", "a place for the ranker");
    *ranker = NULL;
    if (bytes == NULL || size > INT64_MAX) return tg_argument(message, "bytes", "those of a ranker file");
    return open_any("memory", bytes, size, options, ranker, message);
}

void tg_ranker_keep(tg_ranker *r) { r->references++; }

void tg_ranker_close(tg_ranker *r) {
    if (r == NULL || --r->references > 0) return;
    tg_program_free(&r->program);
    tg_network_free(r->model);
    free_others(r);
    for (int i = 0; i < TG_MOST_DIGITS; i++) free(r->digit_names[i]);
    for (int t = 0; t < TG_TABLES; t++) {
        tg_columns_free(&r->columns[t]);
        free(r->fill[t]);
        free(r->learnt[t]);
    }
    tg_heap_give(r->heap, r);
}

void tg_ranker_set_threads(tg_ranker *r, int32_t threads) {
    if (r != NULL) r->threads = threads;
}
