#include "py/py_prepare.h"

#include <stdlib.h>
#include <string.h>

#include "prepare/padding.h"
#include "py/py_graph.h"
#include "py/py_prepared.h"
#include "features/schema.h"
#include "prepare/program.h"
#include "py/py_json.h"

typedef struct py_prepare {
    PyObject_HEAD tg_program program;
    int users; /* calls that are applying it; -1: it is being fitted or restored. Changed with the GIL only */
} py_prepare;

static const char kept_name[] = "tpugraphs._core.kept";

static void free_kept(PyObject *capsule) {
    tg_kept *kept = PyCapsule_GetPointer(capsule, kept_name);
    tg_kept_free(kept);
    free(kept);
}

/* What pruning keeps of one graph, as a capsule; empty at first. */
static PyObject *new_kept(tg_kept **kept) {
    if ((*kept = calloc(1, sizeof **kept)) == NULL) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(*kept, kept_name, free_kept);
    if (capsule == NULL) free(*kept);
    return capsule;
}

/* Begin work: -1 if others are at it who cannot bear that. */
static int enter(py_prepare *self, int changes) {
    if (self->users < 0 || (changes && self->users > 0)) {
        PyErr_SetString(PyExc_RuntimeError, "this preprocessing is being fitted in another thread");
        return -1;
    }
    self->users = changes ? -1 : self->users + 1;
    return 0;
}
static void leave(py_prepare *self) { self->users -= self->users < 0 ? -1 : 1; }

/* ---- stored graphs ---- */

/* A field of a graph as an array, or NULL where it has none; -1 with an exception. */
static int part(tg_py_graph *graph, tg_graph_field field, npy_intp *dims, const char *shape,
                PyArrayObject **array) {
    const struct tg_graph_field_spec *spec = &tg_graph_fields[field];
    PyObject *found = tg_graph_get(graph, field);
    *array = NULL;
    if (found == NULL || found == Py_None) return found == NULL ? -1 : 0;
    *array = tg_array(found, spec->name, spec->type, spec->ndim, dims, shape);
    return *array == NULL ? -1 : 0;
}

static int too_large(void) {
    PyErr_SetString(PyExc_ValueError,
                    "a graph has at most 2^30 nodes and edges and 65536 columns of features");
    return -1;
}

/* Published graphs may have further columns behind the published ones, which one step reads. */
static int64_t published_columns(const tg_program *p, int64_t columns) {
    if (p->node_features == 0 || columns <= p->node_features) return columns;
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->use[i].step->name, "program-columns") == 0) return columns;
    return p->node_features;
}

/* A graph, borrowed, with further features of its nodes (or None), as the steps take it. */
typedef struct source {
    tg_py_graph *graph;
    PyObject *extra;
    tg_stored stored;
    float *nodes; /* (N,F) if only the first columns are taken, owned; or NULL */
} source;

static int take_nodes(source *from, const tg_program *p, PyArrayObject *x, const npy_intp feat[2]) {
    tg_stored *s = &from->stored;
    s->N = feat[0];
    s->F = published_columns(p, feat[1]);
    s->node_feat = TG_F32(x);
    if (s->F == feat[1]) return 0;
    const size_t row = (size_t)s->F * sizeof(float);
    if ((from->nodes = malloc((size_t)s->N * row)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < s->N; i++) memcpy(from->nodes + i * s->F, TG_F32(x) + i * feat[1], row);
    s->node_feat = from->nodes;
    return 0;
}

/* As what columns the features were checked, at the door. */
static void take_checked(const tg_py_graph *graph, tg_stored *s, int64_t node_columns) {
    PyObject *kinds = graph->field[TG_G_CHECKED];
    if (kinds == NULL || !PyBytes_Check(kinds) || PyBytes_Size(kinds) != node_columns + s->G + s->T) return;
    const uint8_t *kind = (const uint8_t *)PyBytes_AsString(kinds);
    s->checked[TG_TABLE_NODE] = kind;
    s->checked[TG_TABLE_GRAPH] = kind + node_columns;
    s->checked[TG_TABLE_CONFIG] = kind + node_columns + s->G;
}

static int take_stored(source *from, const tg_program *p) {
    tg_stored *s = &from->stored;
    npy_intp feat[2] = {-1, -1}, edges[2] = {-1, 2}, nodes[1] = {-1}, graph[1] = {-1}, configs[2] = {-1, -1},
             extra[2] = {-1, -1};
    PyArrayObject *x, *opcode, *e, *k, *whole, *config, *more = NULL;
    if (part(from->graph, TG_G_NODE_FEAT, feat, "(N, F)", &x) < 0 ||
        part(from->graph, TG_G_OPCODE, feat, "(N,)", &opcode) < 0 ||
        part(from->graph, TG_G_EDGES, edges, "(E, 2)", &e) < 0 ||
        part(from->graph, TG_G_CONFIG_IDS, nodes, "(K,)", &k) < 0 ||
        part(from->graph, TG_G_GRAPH_FEAT, graph, "(G,)", &whole) < 0 ||
        part(from->graph, TG_G_CONFIG_FEAT, configs, "(C, T)", &config) < 0)
        return -1;
    if (x == NULL || e == NULL) {
        PyErr_SetString(PyExc_ValueError, "a graph has node_feat and edge_index");
        return -1;
    }
    extra[0] = feat[0];
    if (from->extra != Py_None &&
        (more = tg_array(from->extra, "extra", NPY_FLOAT32, 2, extra, "(N, X)")) == NULL)
        return -1;
    const npy_intp sizes[] = {feat[0], edges[0], nodes[0], feat[1], graph[0], configs[1], extra[1]};
    for (int i = 0; i < 7; i++)
        if (sizes[i] > (i < 3 ? INT32_MAX / 2 : TG_MAX_COLUMNS)) return too_large();
    *s = (tg_stored){.E = edges[0], .edges = TG_I64(e)};
    if (k != NULL) s->K = nodes[0], s->config_nodes = TG_I64(k);
    if (opcode != NULL) s->opcode = TG_U8(opcode);
    if (whole != NULL) s->G = graph[0], s->graph_feat = TG_F32(whole);
    if (config != NULL) s->C = configs[0], s->T = configs[1], s->config_feat = TG_F32(config);
    if (more != NULL) s->X = extra[1], s->extra = TG_F32(more);
    take_checked(from->graph, s, feat[1]);
    return take_nodes(from, p, x, feat);
}

/* How errors call the graph: by its file, or its name. */
static PyObject *called(const source *from) {
    PyObject *path = from->graph->field[TG_G_PATH], *name = from->graph->field[TG_G_NAME];
    if (path != NULL && path != Py_None) return path;
    return name == NULL ? Py_None : name;
}

/* ---- the type ---- */

static PyObject *prepare_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"steps", "node_features", NULL};
    PyObject *steps;
    int node_features = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:Prepare", names, &steps, &node_features)) return NULL;
    if (node_features < 0 || node_features > TG_MAX_COLUMNS) {
        PyErr_Format(PyExc_ValueError, "node_features: expected 0 to %d, got %d", TG_MAX_COLUMNS,
                     node_features);
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_prepare *self = (py_prepare *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->program.node_features = node_features;
    tg_json_tree tree;
    tg_error err;
    int status = tg_py_json(steps, "preprocessing", TG_E_CONFIG, &tree);
    if (status == 0 && tg_program_read(&self->program, tree.root, &err) != TG_OK) {
        tg_raise(&err, NULL);
        status = -1;
    }
    tg_json_free(&tree);
    if (status < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static void prepare_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_program_free(&((py_prepare *)object)->program);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* fit(graph, extra=None) -> kept */
static PyObject *fit(PyObject *object, PyObject *args) {
    py_prepare *self = (py_prepare *)object;
    source from = {.extra = Py_None};
    if (!PyArg_ParseTuple(args, "O!|O:fit", tg_state_of(object)->graph, &from.graph, &from.extra))
        return NULL;
    tg_kept *kept;
    PyObject *capsule = take_stored(&from, &self->program) < 0 ? NULL : new_kept(&kept);
    if (capsule == NULL || enter(self, 1) < 0) {
        free(from.nodes);
        Py_XDECREF(capsule);
        return NULL;
    }
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_program_fit(&self->program, &from.stored, kept, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    free(from.nodes);
    if (status == TG_OK) return capsule;
    Py_DECREF(capsule);
    return tg_raise_about(&err, called(&from));
}

/* finish() */
static PyObject *finish(PyObject *object, PyObject *unused) {
    (void)unused;
    py_prepare *self = (py_prepare *)object;
    if (enter(self, 1) < 0) return NULL;
    tg_error err;
    const tg_status status = tg_program_finish(&self->program, &err);
    leave(self);
    if (status != TG_OK) return tg_raise(&err, NULL);
    Py_RETURN_NONE;
}

/* The nodes of a graph as a model takes them; with `configs`, features of configs, too. */
static tg_py_model_graph *nodes_of(PyObject *object, source *from, PyObject *capsule, int digit_rows,
                                   int configs) {
    py_prepare *self = (py_prepare *)object;
    tg_kept *kept = NULL;
    if (capsule != Py_None && (kept = PyCapsule_GetPointer(capsule, kept_name)) == NULL) return NULL;
    if (take_stored(from, &self->program) < 0) return NULL;
    tg_py_model_graph *graph = tg_py_model_graph_new(tg_state_of(object)->model_graph, digit_rows);
    if (graph == NULL || enter(self, 0) < 0) {
        Py_XDECREF((PyObject *)graph);
        return NULL;
    }
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_program_apply(&self->program, &from->stored, configs, kept, &graph->graph, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (status == TG_OK) return graph;
    Py_DECREF((PyObject *)graph);
    tg_raise_about(&err, called(from));
    return NULL;
}

/* Digits (an array, a pair, or None) as the model takes those of a graph; *bytes of memory, and what they stay in. */
static PyObject *digits_of(tg_py_graph *graph, PyObject *digits, int64_t *bytes, PyObject **mapped) {
    *mapped = Py_None;
    if (digits != Py_None) {
        *bytes = PyArray_Check(digits) ? PyArray_NBYTES((PyArrayObject *)digits) : 0;
        return Py_NewRef(digits);
    }
    PyObject *own = tg_graph_get(graph, TG_G_DIGITS);
    if (own == NULL || !tg_is_digits(own)) return own == NULL ? NULL : Py_NewRef(Py_None);
    tg_py_digits *stored = (tg_py_digits *)own;
    if (graph->field[TG_G_CONFIG_FEAT] != Py_None && stored->shape[2] == 0) return Py_NewRef(Py_None);
    if (stored->handle != NULL) *mapped = own;
    else *bytes = tg_digits_bytes(stored);
    return tg_digits_stored(stored);
}

/* apply(graph, extra=None, kept=None, digit_rows=0, configs=True, digits=None, measured=None, rows=None, weights=None)
   -> Prepared */
static PyObject *apply(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"graph",  "extra",    "kept", "digit_rows", "configs",
                            "digits", "measured", "rows", "weights",    NULL};
    source from = {.extra = Py_None};
    PyObject *capsule = Py_None, *digits = Py_None, *measured = Py_None, *rows = Py_None, *weights = Py_None;
    int digit_rows = 0, configs = 1;
    tg_state *state = tg_state_of(object);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OOipOOOO:apply", names, state->graph, &from.graph,
                                     &from.extra, &capsule, &digit_rows, &configs, &digits, &measured, &rows,
                                     &weights))
        return NULL;
    tg_py_model_graph *nodes = nodes_of(object, &from, capsule, digit_rows, configs);
    free(from.nodes);
    if (nodes == NULL) return NULL;
    int64_t bytes = 0;
    PyObject *mapped = Py_None,
             *own = configs ? digits_of(from.graph, digits, &bytes, &mapped) : Py_NewRef(Py_None);
    int fine = own != NULL && (!configs || tg_py_model_graph_configs(nodes, own, Py_None) == 0);
    Py_XDECREF(own);
    tg_made_of made = {.name = from.graph->field[TG_G_NAME],
                       .configs = configs,
                       .kept = rows,
                       .weights = weights,
                       .segments = tg_program_segment(&((py_prepare *)object)->program),
                       .mapped = mapped,
                       .bytes = bytes};
    if (measured != Py_None) fine &= PyArg_ParseTuple(measured, "OO", &made.measured, &made.normalizers);
    else if (configs) {
        made.measured = tg_graph_get(from.graph, TG_G_RUNTIME);
        made.normalizers = tg_graph_get(from.graph, TG_G_NORMALIZERS);
        made.valid = tg_graph_get(from.graph, TG_G_VALID);
        fine &= made.measured != NULL && made.normalizers != NULL && made.valid != NULL;
    }
    PyObject *prepared = fine ? tg_new_prepared(state->prepared, nodes, &made) : NULL;
    Py_DECREF((PyObject *)nodes);
    return prepared;
}

static void free_rows(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NULL)); }

/* configs(config_feat) -> rows (C, T') */
static PyObject *configs(PyObject *object, PyObject *given) {
    py_prepare *self = (py_prepare *)object;
    npy_intp dims[2] = {-1, -1};
    PyArrayObject *x = tg_array(given, "config_feat", NPY_FLOAT32, 2, dims, "(C, T)");
    if (x == NULL || (dims[1] > TG_MAX_COLUMNS && too_large() < 0) || enter(self, 0) < 0) return NULL;
    float *rows = NULL;
    int cols;
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = tg_program_configs(&self->program, TG_F32(x), dims[0], dims[1], &rows, &cols, &err);
    Py_END_ALLOW_THREADS;
    leave(self);
    if (status != TG_OK) return tg_raise(&err, NULL);
    PyObject *owner = PyCapsule_New(rows, NULL, free_rows);
    if (owner == NULL) {
        free(rows);
        return NULL;
    }
    dims[1] = cols;
    PyArrayObject *array = tg_view(NPY_FLOAT32, 2, dims, rows, owner, 1);
    Py_DECREF(owner);
    return (PyObject *)array;
}

/* ---- state ---- */

static PyObject *get_state(PyObject *object, PyObject *unused) {
    (void)unused;
    const tg_program *p = &((py_prepare *)object)->program;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < p->n; i++)
        for (int s = 0; dict != NULL && s < p->use[i].n_states; s++) {
            const tg_step_state *state = &p->use[i].state[s];
            npy_intp n = (npy_intp)state->n;
            PyArrayObject *array = tg_new_array(state->whole ? NPY_INT64 : NPY_FLOAT64, 1, &n);
            if (array != NULL && n > 0) memcpy(PyArray_DATA(array), state->data, (size_t)n * sizeof(double));
            if (array == NULL || PyDict_SetItemString(dict, state->name, (PyObject *)array) < 0)
                Py_CLEAR(dict);
            Py_XDECREF((PyObject *)array);
        }
    return dict;
}

static int take_state(const tg_step_state *state, PyObject *dict) {
    PyObject *given = PyDict_GetItemString(dict, state->name);
    npy_intp n[1] = {(npy_intp)state->n};
    char shape[32];
    PyOS_snprintf(shape, sizeof shape, "(%lld,)", (long long)state->n);
    PyArrayObject *array = tg_array(given == NULL ? Py_None : given, state->name,
                                    state->whole ? NPY_INT64 : NPY_FLOAT64, 1, n, shape);
    if (array == NULL) return -1;
    if (n[0] > 0) memcpy(state->data, PyArray_DATA(array), (size_t)n[0] * sizeof(double));
    return 0;
}

/* set_state(dict, unfinished=False) */
static PyObject *set_state(PyObject *object, PyObject *args) {
    py_prepare *self = (py_prepare *)object;
    tg_program *p = &self->program;
    PyObject *dict;
    int unfinished = 0;
    if (!PyArg_ParseTuple(args, "O!|p:set_state", &PyDict_Type, &dict, &unfinished)) return NULL;
    if (enter(self, 1) < 0) return NULL;
    if (unfinished) tg_program_forget(p);
    int fine = 1;
    for (int i = 0; i < p->n; i++)
        for (int s = 0; fine && s < p->use[i].n_states; s++)
            fine = take_state(&p->use[i].state[s], dict) == 0;
    if (!fine) tg_program_forget(p);
    tg_error err;
    tg_status status = fine && !unfinished ? tg_program_restored(p, &err) : TG_OK;
    leave(self);
    if (status != TG_OK) return tg_raise(&err, NULL);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_fitted(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((py_prepare *)object)->program.fitted);
}

static PyObject *get_columns(PyObject *object, void *unused) {
    (void)unused;
    const tg_outline *after = &((py_prepare *)object)->program.after;
    return Py_BuildValue("{s:i,s:i,s:i,s:O}", "node", after->cols[TG_TABLE_NODE], "graph",
                         after->cols[TG_TABLE_GRAPH], "config", after->cols[TG_TABLE_CONFIG], "layout",
                         after->has_layout ? Py_True : Py_False);
}

static PyObject *get_counts(PyObject *object, void *unused) {
    (void)unused;
    const tg_program *p = &((py_prepare *)object)->program;
    return Py_BuildValue("{s:L,s:L,s:L,s:L}", "fitted", (long long)p->fits, "applied", (long long)p->applies,
                         "pruned", (long long)p->pruned, "checked", (long long)p->checked);
}

static PyMethodDef methods[] = {
    {"fit", fit, METH_VARARGS,
     PyDoc_STR("fit(graph, extra=None (N, X)): add one graph, with further features of its nodes, to the "
               "fit, or begin "
               "a new one after finish. Returns what pruning kept of it.")},
    {"finish", finish, METH_NOARGS, PyDoc_STR("The last graph was added: what was learnt can be used.")},
    {"apply", (PyCFunction)(void (*)(void))apply, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "apply(graph, extra=None (N, X), kept=None, digit_rows=0, configs=True, digits=None, measured=None, "
         "rows=None, weights=None) -> Prepared: with other digits, and (runtimes, normalizers), of which the "
         "configs are `rows`; without, all of the graph's own.")},
    {"configs", configs, METH_O,
     PyDoc_STR("configs(config_feat (C, T)): features of configs as a model takes them.")},
    {"get_state", get_state, METH_NOARGS, PyDoc_STR("What was learnt, as a dict of arrays.")},
    {"set_state", set_state, METH_VARARGS,
     PyDoc_STR(
         "set_state(state, unfinished=False): take over what get_state gave, also of a fit that goes on.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"fitted", get_fitted, NULL, PyDoc_STR("Whether everything that it learns is there."), NULL},
    {"columns", get_columns, NULL,
     PyDoc_STR("Columns of the node, graph and config features afterwards, -1 where only the graph or a fit "
               "can tell; "
               "whether there are layout digits."),
     NULL},
    {"counts", get_counts, NULL,
     PyDoc_STR("How many graphs were fitted and applied, pruned, and had their indices checked."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, prepare_new},
    {Py_tp_dealloc, prepare_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_doc, (void *)PyDoc_STR("Prepare(steps): preprocessing, from a Graph to what a model takes.")},
    {0, NULL},
};

static PyType_Spec spec = {.name = "tpugraphs._core.Prepare",
                           .basicsize = sizeof(py_prepare),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};

static PyObject *describe_step(const tg_prepare_step *step) {
    return Py_BuildValue("{s:s,s:s,s:N,s:O,s:O,s:O}", "name", step->name, "doc", step->doc, "attrs",
                         tg_py_attrs(step->attrs, TG_STEP_ATTRS), "learns",
                         step->fit != NULL ? Py_True : Py_False, "training",
                         step->flags & TG_STEP_TRAINING ? Py_True : Py_False, "configs",
                         step->flags & TG_STEP_CONFIGS ? Py_True : Py_False);
}

int tg_add_prepare_type(PyObject *module) { return tg_add_type(module, &spec, "Prepare", NULL); }

static PyObject *prepare_steps(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && tg_steps[i] != NULL; i++) tg_append(&list, describe_step(tg_steps[i]));
    return list;
}

static PyObject *list_padding(PyObject *self, PyObject *arg) {
    (void)self;
    npy_intp dims[2] = {-1, TG_NODE_FEATURES};
    PyArrayObject *feat = tg_array(arg, "node_feat", NPY_FLOAT32, 2, dims, "(N, 140)");
    return feat == NULL ? NULL : PyLong_FromLong(tg_list_padding(TG_F32(feat), dims[1], dims[0]));
}

PyMethodDef tg_prepare_methods[] = {
    {"prepare_steps", prepare_steps, METH_NOARGS, PyDoc_STR("The steps of preprocessing: a list of dicts.")},
    {"list_padding", list_padding, METH_O,
     PyDoc_STR("list_padding(node_feat (N, 140)): -1 or 0, with what its lists are padded.")},
    {NULL, NULL, 0, NULL},
};
