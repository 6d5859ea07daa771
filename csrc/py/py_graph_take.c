/* The door: what each array of a graph must be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prepare/step.h"
#include "py/py_columns.h"
#include "py/py_graph.h"

typedef enum { ANY, LAYOUT, TILE } kind;

typedef struct door {
    tg_py_graph *graph;
    tg_state *state;
    kind kind;
    PyObject *given, *columns;
    PyObject *schema;       /* one that was given, or NULL */
    tg_digit_values values; /* of the schema; n < 0: not known */
    int opcodes;            /* of the schema; < 0: none */
    npy_intp N, K, C;
} door;

/* ---- helpers ---- */

static const char *name_of(int field) { return tg_graph_fields[field].name; }

static int fail(const char *field, const char *expected, const char *todo, const char *found) {
    tg_error err;
    tg_bad_field(&err, field, expected, todo == NULL ? tg_check_writer : todo, "%s", found);
    tg_raise(&err, NULL);
    return -1;
}

static PyObject *given(const door *d, const char *name) {
    PyObject *value = PyDict_GetItemString(d->given, name); /* borrowed */
    return value == Py_None ? NULL : value;
}

static tg_door door_of(const door *d, const char *name, const char *letters) {
    return (tg_door){.given = given(d, name),
                     .field = name,
                     .letters = letters,
                     .dims = {-1, -1, -1},
                     .columns = d->columns == NULL ? NULL : PyDict_GetItemString(d->columns, name)};
}

/* Hold an array, which is taken over. */
static int hold(door *d, int field, void *array) {
    if (array == NULL) return -1;
    PyObject *old = d->graph->field[field];
    d->graph->field[field] = array;
    Py_XDECREF(old);
    return 0;
}

static int hold_none(door *d, int field) { return hold(d, field, Py_NewRef(Py_None)); }

/* An array (n,) or (n,m) of `type`, all zeros or ones. */
static PyArrayObject *filled(int type, int ndim, npy_intp n, npy_intp m, int ones) {
    const npy_intp dims[2] = {n, m};
    PyArrayObject *array = tg_new_array(type, ndim, dims);
    if (array == NULL) return NULL;
    memset(PyArray_DATA(array), 0, (size_t)PyArray_NBYTES(array));
    for (npy_intp i = 0; ones && i < n; i++) TG_I64(array)[i] = 1;
    return tg_frozen(array, NULL);
}

/* ---- nodes ---- */

static int take_node_feat(door *d) {
    tg_door f = door_of(d, "node_feat", "NF");
    if (d->kind != ANY) f.dims[1] = TG_NODE_FEATURES;
    if (f.given != NULL) {
        if (hold(d, TG_G_NODE_FEAT, tg_door_floats(&f)) < 0) return -1;
        d->N = f.dims[0];
    } else {
        tg_door codes = door_of(d, "node_opcode", "N");
        if (codes.given != NULL && tg_door_shape(&codes) < 0) return -1;
        d->N = codes.given == NULL ? 1 : codes.dims[0];
        if (hold(d, TG_G_NODE_FEAT, filled(NPY_FLOAT32, 2, d->N, 0, 0)) < 0) return -1;
    }
    return d->N < 1 ? fail("node_feat", "at least one node", NULL, "none") : 0;
}

static int take_opcodes(door *d) {
    tg_door f = door_of(d, "node_opcode", "N");
    if (f.given == NULL) return hold_none(d, TG_G_OPCODE);
    f.dims[0] = d->N;
    PyArrayObject *codes = tg_door_whole(&f, 0, 255, "opcodes");
    PyArrayObject *bytes = codes == NULL ? NULL : tg_new_array(NPY_UINT8, 1, &d->N);
    for (npy_intp i = 0; bytes != NULL && i < d->N; i++) TG_U8(bytes)[i] = (uint8_t)TG_I64(codes)[i];
    Py_XDECREF((PyObject *)codes);
    return hold(d, TG_G_OPCODE, tg_frozen(bytes, NULL));
}

static int take_edges(door *d) {
    tg_door f = door_of(d, "edge_index", "E");
    PyArrayObject *a = (PyArrayObject *)f.given;
    if (a == NULL ||
        (PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) == 0)) /* none, or written from an empty list */
        return hold(d, TG_G_EDGES, filled(NPY_INT64, 2, 0, 2, 0));
    f.letters = "E2";
    f.dims[1] = 2;
    return hold(d, TG_G_EDGES, tg_door_whole(&f, 0, d->N - 1, "node numbers"));
}

static int take_config_ids(door *d) {
    tg_door f = door_of(d, "node_config_ids", "K");
    PyArrayObject *ids =
        f.given == NULL ? filled(NPY_INT64, 1, 0, 0, 0) : tg_door_whole(&f, 0, d->N - 1, "node numbers");
    if (hold(d, TG_G_CONFIG_IDS, ids) < 0) return -1;
    d->K = PyArray_DIM(ids, 0);
    uint8_t *seen = calloc((size_t)d->N, 1);
    if (seen == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int64_t twice = -1;
    for (npy_intp k = 0; k < d->K; k++) {
        const int64_t id = TG_I64(ids)[k];
        if (seen[id] && (twice < 0 || id < twice)) twice = id;
        seen[id] = 1;
    }
    free(seen);
    char found[48];
    snprintf(found, sizeof found, "node %lld twice", (long long)twice);
    return twice < 0 ? 0 : fail(f.field, "each node once", NULL, found);
}

/* node_splits of published graphs: (S,) or (1,S), by default 0 and N. */
static int take_splits(door *d) {
    tg_door f = door_of(d, "node_splits", "S");
    if (f.given == NULL) {
        PyArrayObject *splits = filled(NPY_INT64, 2, 1, 2, 0);
        if (splits != NULL) TG_I64(splits)[1] = d->N;
        return hold(d, TG_G_SPLITS, splits);
    }
    PyArrayObject *a = (PyArrayObject *)f.given;
    const int flat = PyArray_NDIM(a) == 2 && PyArray_DIM(a, 0) == 1;
    npy_intp shape[2] = {1, PyArray_SIZE(a)};
    PyArray_Dims dims = {shape + 1, 1};
    if (flat && (f.given = PyArray_Newshape(a, &dims, NPY_CORDER)) == NULL) return -1;
    PyArrayObject *whole = tg_door_whole(&f, 0, d->N, "node numbers"), *copy = NULL;
    if (flat) Py_DECREF(f.given);
    int rising = 1;
    for (npy_intp i = 1; whole != NULL && i < PyArray_SIZE(whole); i++)
        rising &= TG_I64(whole)[i - 1] <= TG_I64(whole)[i];
    dims = (PyArray_Dims){shape, 2};
    if (whole != NULL && rising) {
        PyObject *row = PyArray_Newshape(whole, &dims, NPY_CORDER);
        copy = row == NULL ? NULL : tg_private_copy((PyArrayObject *)row);
        Py_XDECREF(row);
    }
    Py_XDECREF((PyObject *)whole);
    if (!rising) return fail(f.field, "rising node numbers", NULL, "falling ones");
    return hold(d, TG_G_SPLITS, tg_frozen(copy, NULL));
}

static int take_features(door *d, int field, const char *letters, npy_intp columns) {
    tg_door f = door_of(d, tg_graph_fields[field].name, letters);
    if (f.given == NULL) return hold_none(d, field);
    if (columns > 0) f.dims[1] = columns;
    return hold(d, field, tg_door_floats(&f));
}

/* ---- configs ---- */

static npy_intp config_rows(const door *d) {
    PyObject *feat = d->graph->field[TG_G_CONFIG_FEAT];
    return feat == Py_None ? -1 : PyArray_DIM((PyArrayObject *)feat, 0);
}

/* Number of values of each digit, as they occur: at least two. */
static tg_digit_values inferred(PyArrayObject *digits) {
    tg_digit_values v = {.n = PyArray_DIM(digits, 2)};
    for (Py_ssize_t c = 0; c < v.n; c++) v.of[c] = 2;
    const int8_t *x = TG_I8(digits);
    for (npy_intp i = 0; i < PyArray_SIZE(digits); i += v.n)
        for (Py_ssize_t c = 0; c < v.n; c++)
            if (x[i + c] >= v.of[c]) v.of[c] = x[i + c] + 1;
    return v;
}

static int equal_values(const tg_digit_values *a, const tg_digit_values *b) {
    return a->n == b->n && (a->n <= 0 || memcmp(a->of, b->of, (size_t)a->n * sizeof *a->of) == 0);
}

/* "(C, 3, 18)" and so on: as many nodes as there are ids. */
static int wrong_shape(const door *d, const char *width, const long long *shape) {
    char expected[128], found[96];
    snprintf(expected, sizeof expected, "shape (C, %lld, %s, as there are %lld node_config_ids",
             (long long)d->K, width, (long long)d->K);
    snprintf(found, sizeof found, "shape (%lld, %lld, %lld)", shape[0], shape[1], shape[2]);
    return fail("node_config_feat", expected, NULL, found);
}

/* Refuse `have` digits per node, where the schema has another number. */
static int digits_per_node(const door *d, long long have) {
    char expected[64], found[32] = "none";
    snprintf(expected, sizeof expected, "%zd digit%s per node, as in the schema", d->values.n,
             TG_S(d->values.n));
    if (have > 0) snprintf(found, sizeof found, "%lld", have);
    return fail("node_config_feat", expected, NULL, found);
}

/* Take digits that fit the declared values (n < 0: those of layouts). */
static int make_digits(door *d, tg_door *f, const tg_digit_values *declared, int infer) {
    PyObject *all = NULL;
    if (tg_is_digits(f->given) && (f->given = all = tg_digits_all((tg_py_digits *)f->given)) == NULL)
        return -1;
    f->dims[0] = f->dims[1] = -1;
    f->dims[2] = declared->n < 0 ? TG_DIGITS : (npy_intp)declared->n;
    PyArrayObject *packed = tg_door_digits(f, declared->n < 0 ? NULL : declared->of);
    Py_XDECREF(all);
    if (packed == NULL) return -1;
    const tg_digit_values own = infer ? inferred(packed) : *declared;
    return hold(d, TG_G_DIGITS, tg_new_digits(d->state, packed, &own));
}

static int take_digits(door *d) {
    tg_door f = door_of(d, "node_config_feat", "CKD");
    const int stored = tg_is_digits(f.given), layout = d->kind == LAYOUT;
    if (!stored && layout) f.dims[2] = TG_DIGITS;
    if (!stored && tg_door_shape(&f) < 0) return -1;
    const tg_py_digits *ready = stored ? (tg_py_digits *)f.given : NULL;
    const long long own[3] = {f.dims[0], f.dims[1], f.dims[2]}, *shape = stored ? ready->shape : own;
    if (layout && (shape[1] != d->K || shape[2] != TG_DIGITS)) return wrong_shape(d, "18)", shape);
    if (!layout && (shape[1] != d->K || shape[2] < 1 || shape[2] > TG_MOST_DIGITS))
        return wrong_shape(d, "D) with D in 1..64", shape);
    if (stored &&
        (layout ? ready->values.n < 0
                : ready->values.n >= 0 && (d->values.n < 0 || equal_values(&d->values, &ready->values))))
        return hold(d, TG_G_DIGITS, Py_NewRef(f.given));
    if (layout) return make_digits(d, &f, &(tg_digit_values){.n = -1}, 0);
    if (d->values.n >= 0 && d->values.n != shape[2]) return digits_per_node(d, shape[2]);
    if (d->values.n >= 0) return make_digits(d, &f, &d->values, 0);
    tg_digit_values most = {.n = (Py_ssize_t)shape[2]};
    for (Py_ssize_t i = 0; i < most.n; i++) most.of[i] = TG_MOST_DIGIT_VALUES;
    return make_digits(d, &f, &most, 1);
}

/* Of configs that are features only, or of which there are none: (C,K,18) of layouts, or (C,0,0). */
static int no_digits(door *d, npy_intp count) {
    const int layout = d->kind == LAYOUT;
    const npy_intp dims[3] = {count, layout ? d->K : 0, layout ? TG_DIGITS : 0};
    PyArrayObject *none = tg_new_array(NPY_INT8, 3, dims);
    return none == NULL ? -1
                        : hold(d, TG_G_DIGITS,
                               tg_new_digits(d->state, none, &(tg_digit_values){.n = layout ? -1 : 0}));
}

static npy_intp runtimes_given(const door *d) {
    PyObject *runtime = given(d, d->kind == ANY ? "runtime" : "config_runtime");
    return runtime == NULL ? 0 : PyArray_SIZE((PyArrayObject *)runtime);
}

static int take_configs(door *d) {
    const int digits = given(d, "node_config_feat") != NULL;
    if (take_features(d, TG_G_CONFIG_FEAT, "CT", d->kind == TILE ? TG_TILE_FEATURES : 0) < 0 ||
        take_config_ids(d) < 0)
        return -1;
    if (d->kind == ANY && digits != (given(d, "node_config_ids") != NULL))
        return fail(digits ? "node_config_ids" : "node_config_feat",
                    "node_config_ids and node_config_feat together", NULL, "one of them");
    const npy_intp rows = config_rows(d), times = runtimes_given(d);
    char text[96];
    if (d->kind == LAYOUT && !digits && times > 0) {
        snprintf(text, sizeof text, "shape (%lld, %lld, %d)", (long long)times, (long long)d->K, TG_DIGITS);
        return fail("node_config_feat", text, NULL, "no such array");
    }
    if (d->kind == ANY && !digits && rows < 0 && times > 0)
        return fail("config_feat", "configs, as there are runtimes", "give config_feat", "none");
    if ((digits ? take_digits(d) : no_digits(d, rows < 0 ? 0 : rows)) < 0) return -1;
    d->C = (npy_intp)((tg_py_digits *)d->graph->field[TG_G_DIGITS])->shape[0];
    if (rows < 0 || rows == d->C) return 0;
    char found[32];
    snprintf(text, sizeof text, "%lld config%s, as node_config_feat has", (long long)d->C, TG_S(d->C));
    snprintf(found, sizeof found, "%lld", (long long)rows);
    return fail("config_feat", text, NULL, found);
}

/* ---- measurements ---- */

/* Nanoseconds (C,) of published graphs. Any pass if they are no measurements: by default if none is above 0. */
static int take_nanoseconds(door *d, int field, const char *name, int least, int measured) {
    tg_door f = door_of(d, name, "C");
    PyArrayObject *times;
    f.dims[0] = d->C;
    if (f.given == NULL) times = filled(NPY_INT64, 1, d->C, 0, least);
    else times = tg_door_whole(&f, INT64_MIN, INT64_MAX, NULL);
    if (hold(d, field, times) < 0) return -1;
    const int64_t *t = TG_I64(times);
    for (npy_intp i = 0; measured < 0 && i < d->C; i++)
        if (t[i] > 0) measured = 1;
    for (npy_intp i = 0; measured > 0 && f.given != NULL && i < d->C; i++)
        if (t[i] < least) {
            tg_door_refuse(&f, i, least ? "nanoseconds > 0" : "nanoseconds >= 0",
                           "drop this config or measure it again");
            return -1;
        }
    return 0;
}

static int has_runtimes(const door *d) {
    const PyArrayObject *times = (PyArrayObject *)d->graph->field[TG_G_RUNTIME];
    for (npy_intp i = 0; i < d->C; i++)
        if (TG_I64(times)[i] > 0) return 1;
    return 0;
}

static int take_valid(door *d) {
    tg_door f = door_of(d, "valid", "C");
    if (f.given == NULL) return hold_none(d, TG_G_VALID);
    f.dims[0] = d->C;
    if (tg_door_shape(&f) < 0) return -1;
    PyArrayObject *a = (PyArrayObject *)f.given;
    if (PyArray_TYPE(a) != NPY_BOOL) {
        PyObject *type = PyObject_Str((PyObject *)PyArray_DESCR(a));
        char found[64];
        snprintf(found, sizeof found, "dtype %.40s",
                 type == NULL ? "?" : PyUnicode_AsUTF8AndSize(type, NULL));
        Py_XDECREF(type);
        return fail("valid", "True or False for every config", NULL, found);
    }
    PyArrayObject *own =
        (PyArrayObject *)PyArray_FromArray(a, PyArray_DescrFromType(NPY_BOOL), NPY_ARRAY_CARRAY_RO);
    if (hold(d, TG_G_VALID, tg_frozen(own, f.given)) < 0) return -1;
    return 0;
}

/* The bytes (C,) of `valid`, or NULL: all ran. */
static const npy_bool *ran(const door *d) {
    PyObject *valid = d->graph->field[TG_G_VALID];
    return valid == Py_None ? NULL : PyArray_DATA((PyArrayObject *)valid);
}

static int some_ran(const door *d) {
    const npy_bool *good = ran(d);
    int some = good == NULL || d->C == 0;
    for (npy_intp i = 0; !some && i < d->C; i++) some = good[i];
    char found[48];
    snprintf(found, sizeof found, "none of %lld", (long long)d->C);
    return some ? 0 : fail("valid", "at least one config that ran", "leave this problem out", found);
}

/* Runtimes in any unit: > 0, or all zero; those of failed configs are not read. */
static int take_runtimes(door *d) {
    tg_door f = door_of(d, "runtime", "C");
    if (f.given == NULL) return hold(d, TG_G_RUNTIME, filled(NPY_INT64, 1, d->C, 0, 0));
    f.dims[0] = d->C;
    tg_number type = {0};
    if (tg_door_shape(&f) < 0) return -1;
    tg_number_of((PyArrayObject *)f.given, &type);
    if (type.kind == 'b') return fail("runtime", "times, as numbers", NULL, "bools");
    const int whole = type.kind != 'f';
    PyArrayObject *made = whole ? tg_door_whole(&f, INT64_MIN, INT64_MAX, NULL) : tg_door_doubles(&f);
    PyArrayObject *own = made == NULL ? NULL : tg_private_copy(made);
    Py_XDECREF((PyObject *)made);
    if (own == NULL) return -1;
    const npy_bool *good = ran(d);
    int measured = 0;
    for (npy_intp i = 0; i < d->C; i++) {
        if (good != NULL && !good[i]) {
            if (whole) TG_I64(own)[i] = 0;
            else TG_F64(own)[i] = NAN;
        } else measured |= whole ? TG_I64(own)[i] != 0 : TG_F64(own)[i] != 0;
    }
    for (npy_intp i = 0; measured && i < d->C; i++) {
        const int fine = whole ? TG_I64(own)[i] > 0 : TG_F64(own)[i] > 0 && isfinite(TG_F64(own)[i]);
        if (fine || (good != NULL && !good[i])) continue;
        Py_DECREF((PyObject *)own);
        tg_door_refuse(&f, i, "times > 0",
                       "drop this config, measure it again, or say in valid= that it failed");
        return -1;
    }
    return hold(d, TG_G_RUNTIME, tg_frozen(own, NULL));
}

static int take_repeats(door *d) {
    tg_door f = door_of(d, "repeats", "CR");
    if (f.given == NULL) return hold_none(d, TG_G_REPEATS);
    f.dims[0] = d->C;
    PyArrayObject *made = tg_door_doubles(&f), *own = made == NULL ? NULL : tg_private_copy(made);
    Py_XDECREF((PyObject *)made);
    if (own == NULL) return -1;
    const npy_bool *good = ran(d);
    const npy_intp R = f.dims[1];
    for (npy_intp i = 0; i < d->C * R; i++) {
        double *x = TG_F64(own) + i;
        if (good != NULL && !good[i / R]) *x = NAN;
        if (isnan(*x) || (*x > 0 && isfinite(*x))) continue;
        Py_DECREF((PyObject *)own);
        tg_door_refuse(&f, i, "times > 0, or NaN where there is none", tg_check_writer);
        return -1;
    }
    return hold(d, TG_G_REPEATS, tg_frozen(own, NULL));
}

static int take_measurements(door *d) {
    if (d->kind == ANY) {
        if (take_valid(d) < 0 || some_ran(d) < 0 || take_runtimes(d) < 0) return -1;
        return take_repeats(d);
    }
    if (take_nanoseconds(d, TG_G_RUNTIME, "config_runtime", 0, -1) < 0) return -1;
    if (d->kind == LAYOUT) return 0;
    return take_nanoseconds(d, TG_G_NORMALIZERS, name_of(TG_G_NORMALIZERS), 1, has_runtimes(d));
}

/* ---- a schema that was given ---- */

/* Columns of a table: 0 where there is none. */
static npy_intp width_of(const door *d, tg_graph_field field) {
    PyObject *table = d->graph->field[field];
    PyArrayObject *array = (PyArrayObject *)table;
    return table == Py_None ? 0 : PyArray_DIM(array, PyArray_NDIM(array) - 1);
}

static int read_schema(door *d) {
    d->values.n = d->opcodes = -1;
    if (d->schema == NULL) return 0;
    PyObject *values = PyObject_GetAttrString(d->schema, "digit_values");
    PyObject *opcodes = values == NULL ? NULL : PyObject_GetAttrString(d->schema, "opcodes");
    const int fine = opcodes != NULL && tg_take_values(values, &d->values);
    if (fine && opcodes != Py_None) d->opcodes = (int)PyLong_AsLong(opcodes);
    Py_XDECREF(values);
    Py_XDECREF(opcodes);
    return fine && !PyErr_Occurred() ? 0 : -1;
}

static int count_columns(const door *d, tg_graph_field field) {
    PyObject *columns = door_of(d, name_of(field), NULL).columns;
    const Py_ssize_t want = columns == NULL ? -1 : PySequence_Size(columns);
    const int none = d->graph->field[field] == Py_None;
    const npy_intp have = width_of(d, field);
    if (want < 0) return PyErr_Occurred() ? -1 : 0;
    if (want == have || (field == TG_G_CONFIG_FEAT && none && d->C == 0)) return 0;
    char expected[64], found[32];
    snprintf(expected, sizeof expected, "%zd column%s, as in the schema", want, TG_S(want));
    snprintf(found, sizeof found, "%lld", (long long)have);
    return fail(name_of(field), expected, NULL, found);
}

static int count_opcodes(const door *d) {
    PyArrayObject *codes = (PyArrayObject *)d->graph->field[TG_G_OPCODE];
    const int none = (PyObject *)codes == Py_None;
    if (none != (d->opcodes < 0))
        return fail("node_opcode", none ? "opcodes, as in the schema" : "no opcodes, as in the schema", NULL,
                    none ? "none" : "some");
    for (npy_intp i = 0; !none && i < d->N; i++) {
        if (TG_U8(codes)[i] < d->opcodes) continue;
        char expected[48];
        const tg_door f = {.given = (PyObject *)codes, .field = "node_opcode"};
        snprintf(expected, sizeof expected, "opcodes in 0..%d", d->opcodes - 1);
        tg_door_refuse(&f, i, expected, tg_check_writer);
        return -1;
    }
    return 0;
}

static int fit_schema(const door *d) {
    if (count_columns(d, TG_G_NODE_FEAT) < 0 || count_columns(d, TG_G_GRAPH_FEAT) < 0 ||
        count_columns(d, TG_G_CONFIG_FEAT) < 0)
        return -1;
    const tg_py_digits *digits = (tg_py_digits *)d->graph->field[TG_G_DIGITS];
    if (digits->shape[2] != d->values.n && d->C > 0) /* none were given: others were refused */
        return digits_per_node(d, 0);
    return count_opcodes(d);
}

/* ---- values of the features ---- */

/* Check a table by the columns of a group of the schema, and write down their kinds. */
static int check_table(const door *d, tg_graph_field field, const char *group, char *kinds) {
    PyArrayObject *table = (PyArrayObject *)d->graph->field[field];
    PyObject *columns = PyObject_GetAttrString(d->schema, group);
    PyObject *where = columns == NULL ? NULL : PyUnicode_FromFormat("%s: column", name_of(field));
    tg_rule *rules = where == NULL ? NULL : tg_rules_of(columns);
    const int status = rules == NULL ? -1 : tg_check_table(columns, rules, table, where, NULL);
    for (Py_ssize_t c = 0; status == 0 && c < PyTuple_Size(columns); c++) kinds[c] = (char)rules[c].kind;
    free(rules);
    Py_XDECREF(where);
    Py_XDECREF(columns);
    return status;
}

/* Features are finite by now; columns of a schema that was given may ask for more. */
static int check_features(door *d) {
    static const struct {
        tg_graph_field field;
        const char *group;
    } tables[TG_TABLES] = {
        {TG_G_NODE_FEAT, "node"}, {TG_G_GRAPH_FEAT, "graph"}, {TG_G_CONFIG_FEAT, "config"}};
    npy_intp width[TG_TABLES], all = 0;
    for (int t = 0; t < TG_TABLES; t++) all += width[t] = width_of(d, tables[t].field);
    PyObject *checked = PyBytes_FromStringAndSize(NULL, all);
    if (checked == NULL) return -1;
    char *kinds = PyBytes_AsString(checked);
    memset(kinds, TG_KIND_NUMBER, (size_t)all);
    for (int t = 0; d->schema != NULL && t < TG_TABLES; kinds += width[t++])
        if (width[t] > 0 && check_table(d, tables[t].field, tables[t].group, kinds) < 0) {
            Py_DECREF(checked);
            return -1;
        }
    return hold(d, TG_G_CHECKED, checked);
}

/* ---- all ---- */

static int kind_of(PyObject *graph, kind *found) {
    PyObject *text = PyObject_GetAttrString(graph, "kind");
    if (text == NULL) return -1;
    *found = PyUnicode_CompareWithASCIIString(text, "layout") == 0 ? LAYOUT
             : PyUnicode_CompareWithASCIIString(text, "tile") == 0 ? TILE
                                                                   : ANY;
    Py_DECREF(text);
    return 0;
}

int tg_graph_take(tg_py_graph *self, tg_state *state, PyObject *given_arrays, PyObject *columns,
                  PyObject *schema) {
    door d = {.graph = self, .state = state, .given = given_arrays, .columns = columns, .schema = schema};
    if (kind_of((PyObject *)self, &d.kind) < 0 || read_schema(&d) < 0) return -1;
    static const tg_graph_field required[] = {TG_G_NODE_FEAT, TG_G_OPCODE, TG_G_EDGES, TG_G_CONFIG_FEAT};
    for (int i = 0; d.kind != ANY && i < (d.kind == TILE ? 4 : 3); i++)
        if (given(&d, name_of(required[i])) == NULL)
            return fail(name_of(required[i]), "an array of numbers", NULL, "none");
    for (int i = 0; i < TG_G_ARRAYS; i++)
        if (self->field[i] == NULL) self->field[i] = Py_NewRef(Py_None);
    if (take_node_feat(&d) < 0 || take_opcodes(&d) < 0 || take_edges(&d) < 0) return -1;
    if (d.kind != ANY && take_splits(&d) < 0) return -1;
    if (take_features(&d, TG_G_GRAPH_FEAT, "G", 0) < 0 || take_configs(&d) < 0) return -1;
    if (take_measurements(&d) < 0) return -1;
    if (schema != NULL && fit_schema(&d) < 0) return -1;
    return check_features(&d);
}
