/* The Python types _core.Model, steps and weights, and _core.Workspace, the memory passes run in. */
#include "py/py_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "features/schema.h"
#include "py/py_plan.h"
#include "score/network.h"

/* ---- workspaces ---- */

static void workspace_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_workspace_free(&((tg_py_workspace *)object)->workspace);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *get_workspace_memory(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(tg_workspace_bytes(&((tg_py_workspace *)object)->workspace));
}

static PyObject *new_workspace(const tg_state *state) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(state->workspace, Py_tp_alloc);
    return alloc(state->workspace, 0);
}

int tg_py_is_workspace(const tg_state *state, PyObject *object) {
    if (PyObject_TypeCheck(object, state->workspace)) return 1;
    PyErr_SetString(PyExc_TypeError, "workspace: expected a Workspace");
    return 0;
}

tg_py_workspace *tg_py_take_workspace(tg_py_model *model, PyObject *given) {
    tg_py_workspace *ws;
    const tg_state *state = tg_state_of((PyObject *)model);
    const Py_ssize_t spare = PyList_Size(model->spare);
    if (given != NULL && given != Py_None) {
        if (!tg_py_is_workspace(state, given)) return NULL;
        ws = (tg_py_workspace *)given;
        Py_INCREF(given);
        if (ws->busy == getpid()) {
            Py_DECREF(given);
            PyErr_SetString(PyExc_RuntimeError, "this workspace is in use by another thread");
            return NULL;
        }
    } else if (spare > 0) {
        ws = (tg_py_workspace *)PyList_GetItem(model->spare, spare - 1);
        Py_INCREF((PyObject *)ws);
        if (PyList_SetSlice(model->spare, spare - 1, spare, NULL) < 0) Py_CLEAR(ws);
    } else {
        ws = (tg_py_workspace *)new_workspace(state);
    }
    if (ws != NULL) ws->busy = getpid();
    return ws;
}

void tg_py_return_workspace(tg_py_model *model, tg_py_workspace *ws, PyObject *given) {
    ws->busy = 0;
    const int own = given == NULL || given == Py_None;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (own && PyList_Append(model->spare, (PyObject *)ws) < 0) PyErr_Clear(); /* then it is freed */
    PyErr_Restore(type, value, trace);
    Py_DECREF((PyObject *)ws);
}

/* ---- passes ---- */

/* Forget what threads of a parent process were doing. */
static void look_at_process(tg_py_model *self) {
    if (self->process == getpid()) return;
    self->process = getpid();
    self->readers = self->writers = 0;
}

static int in_use(void) {
    PyErr_SetString(
        PyExc_RuntimeError,
        "this model is in use by another thread: its weights cannot be read while they are updated");
    return -1;
}

int tg_py_begin_update(tg_py_model *self) {
    look_at_process(self);
    if (self->readers > 0 || self->writers > 0) return in_use();
    self->writers++;
    return 0;
}

void tg_py_end_update(tg_py_model *self) { self->writers--; }

static int begin_reading(tg_py_model *self) {
    look_at_process(self);
    if (self->writers > 0) return in_use();
    self->readers++;
    return 0;
}

typedef struct poll_context {
    const tg_py_model *model;
    unsigned long cancels;
} poll_context;

static int poll_model(void *context) {
    const poll_context *c = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() != 0;
    if (!stop && c->model->cancels != c->cancels) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        stop = 1;
    }
    PyGILState_Release(gil);
    return stop;
}

int tg_py_run(tg_py_model *self, tg_py_workspace *ws, tg_py_pass *p, const tg_py_update *update) {
    if ((update == NULL ? begin_reading(self) : tg_py_begin_update(self)) < 0) return -1;
    tg_error err;
    tg_status status;
    poll_context context = {self, self->cancels};
    tg_cancel cancel = {poll_model, &context, 0};
    p->pass.cancel = &cancel;
    Py_BEGIN_ALLOW_THREADS
    status = tg_model_run(self->model, &ws->workspace, &p->pass, &err);
    if (status == TG_OK && update != NULL)
        status = tg_optimizer_update(update->optimizer, self->model->P, self->model->weights, p->pass.grads,
                                     update->moments, NULL, &err);
    Py_END_ALLOW_THREADS
    if (update == NULL) self->readers--;
    else self->writers--;
    if (status == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* ---- model ---- */

static int draw(tg_model *model, uint64_t seed) {
    tg_error err;
    tg_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tg_model_draw(model, seed, &err);
    Py_END_ALLOW_THREADS
    if (status != TG_OK) tg_raise(&err, NULL);
    return status == TG_OK ? 0 : -1;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"steps",          "seed",   "node_features", "lean",    "config_features",
                            "graph_features", "digits", "inputs",        "outputs", NULL};
    PyObject *steps, *inputs = NULL, *outputs = NULL;
    unsigned long long seed = 0;
    int lean = 0;
    tg_model_sizes sizes = TG_PY_SIZES;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Kipii(ii)OO", names, &steps, &seed,
                                     &sizes.node_features, &lean, &sizes.config_features,
                                     &sizes.graph_features, &sizes.digit_cols, &sizes.digit_rows, &inputs,
                                     &outputs) ||
        tg_py_check_sizes(&sizes) < 0)
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    tg_py_model *self = (tg_py_model *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->spare = PyList_New(0);
    self->process = getpid();
    if ((self->model = tg_model_new(&sizes)) == NULL) PyErr_NoMemory();
    else self->model->lean = lean;
    if (self->spare == NULL || self->model == NULL || tg_py_plan(self->model, steps, inputs, outputs) < 0 ||
        draw(self->model, seed) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void model_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((tg_py_model *)object)->spare);
    tg_model_free(((tg_py_model *)object)->model);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *model_scores(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "precision", "inputs", "workspace", NULL};
    tg_py_model *self = (tg_py_model *)object;
    const char *precision = "f32";
    PyObject *slates, *inputs = NULL, *given = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sOO", names, &slates, &precision, &inputs, &given))
        return NULL;
    tg_py_pass p;
    if (tg_py_pass_init(&p, tg_state_of(object), self->model, slates, precision, 0) == 0 &&
        tg_py_pass_feed(&p, self->model, inputs) == 0 && tg_py_pass_scores(&p, self->model) == 0) {
        tg_py_workspace *ws = tg_py_take_workspace(self, given);
        if (ws != NULL) {
            if (tg_py_run(self, ws, &p, NULL) == 0) result = tg_py_split_scores(&p);
            tg_py_return_workspace(self, ws, given);
        }
    }
    tg_py_pass_free(&p);
    return result;
}

/* Report progress to Python: not 0 if that raised. */
static int report_done(void *function, int64_t configs) {
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *result = PyObject_CallFunction(function, "L", (long long)configs);
    Py_XDECREF(result);
    PyGILState_Release(gil);
    return result == NULL;
}

/* scores (n) of rows of a prepared graph, all of whose parts are graphs that the model takes. */
static int score_prepared(tg_py_model *self, tg_py_workspace *ws, tg_py_prepared *of, PyArrayObject *rows,
                          tg_scoring *how, float *scores) {
    const Py_ssize_t cuts = PyTuple_Size(of->cuts), n = cuts > 0 ? cuts : 1;
    const tg_graph **graphs = malloc((size_t)n * sizeof *graphs);
    if (graphs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int status = begin_reading(self);
    for (Py_ssize_t i = 0; status == 0 && i < n; i++) {
        tg_py_model_graph *part = tg_py_part(of, i);
        if (part == NULL) status = -1;
        else graphs[i] = &part->graph;
    }
    if (status == 0) {
        tg_error err;
        poll_context context = {self, self->cancels};
        tg_cancel cancel = {poll_model, &context, 0};
        how->cancel = &cancel;
        how->workspace = &ws->workspace;
        tg_status done;
        Py_BEGIN_ALLOW_THREADS
        done = tg_network_scores(self->model, graphs, (int)n, TG_I64(rows), (int64_t)PyArray_SIZE(rows), how,
                                 scores, &err);
        Py_END_ALLOW_THREADS
        self->readers--;
        if (done != TG_OK) {
            tg_raise_about(&err, of->name);
            status = -1;
        }
    }
    free(graphs);
    return status;
}

/* score_prepared(prepared, rows, most, precision="f32", done=None) -> scores (n,) */
static PyObject *model_score(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"prepared", "rows", "most", "precision", "done", NULL};
    tg_py_model *self = (tg_py_model *)object;
    PyObject *prepared, *given, *done = Py_None;
    const char *precision = "f32";
    long long most;
    npy_intp n[1] = {-1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OL|sO:score_prepared", names,
                                     tg_state_of(object)->prepared, &prepared, &given, &most, &precision,
                                     &done))
        return NULL;
    if (most < 1) return PyErr_Format(PyExc_ValueError, "most: expected at least 1, got %lld", most);
    tg_scoring how = {.most = most, .precision = tg_py_precision(precision, 0), .context = done};
    if (done != Py_None) how.done = report_done;
    PyArrayObject *rows = how.precision < 0 ? NULL : tg_array(given, "rows", NPY_INT64, 1, n, "(n,)");
    PyObject *stored = rows == NULL ? NULL : tg_py_stored_rows((tg_py_prepared *)prepared, given);
    PyArrayObject *scores = stored == NULL ? NULL : tg_new_array(NPY_FLOAT32, 1, n);
    tg_py_workspace *ws = scores == NULL ? NULL : tg_py_take_workspace(self, NULL);
    if (ws == NULL || score_prepared(self, ws, (tg_py_prepared *)prepared, (PyArrayObject *)stored, &how,
                                     TG_F32(scores)) < 0)
        Py_CLEAR(scores);
    if (ws != NULL) tg_py_return_workspace(self, ws, NULL);
    Py_XDECREF(stored);
    return (PyObject *)scores;
}

static PyObject *model_run(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "outputs", "inputs", "precision", "workspace", NULL};
    tg_py_model *self = (tg_py_model *)object;
    const char *precision = "f32";
    PyObject *slates, *outputs, *inputs = NULL, *given = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OsO", names, &slates, &outputs, &inputs, &precision,
                                     &given))
        return NULL;
    tg_py_pass p;
    if (tg_py_pass_init(&p, tg_state_of(object), self->model, slates, precision, 0) == 0 &&
        tg_py_pass_feed(&p, self->model, inputs) == 0 && tg_py_pass_fetch(&p, self->model, outputs) == 0) {
        tg_py_workspace *ws = tg_py_take_workspace(self, given);
        if (ws != NULL) {
            if (tg_py_run(self, ws, &p, NULL) == 0) result = tg_py_fetched(&p, self->model);
            tg_py_return_workspace(self, ws, given);
        }
    }
    tg_py_pass_free(&p);
    return result;
}

static PyObject *model_input_gradients(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "dscores", "of", "inputs", "precision", "workspace", NULL};
    tg_py_model *self = (tg_py_model *)object;
    const char *precision = "f32";
    PyObject *slates, *dscores, *of, *inputs = NULL, *given = NULL, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OsO", names, &slates, &dscores, &of, &inputs,
                                     &precision, &given))
        return NULL;
    tg_py_pass p;
    if (tg_py_pass_init(&p, tg_state_of(object), self->model, slates, precision, 1) == 0 &&
        tg_py_pass_feed(&p, self->model, inputs) == 0 && tg_py_pass_scores(&p, self->model) == 0 &&
        tg_py_pass_start(&p, dscores) == 0 && tg_py_pass_gradients(&p, self->model, of) == 0) {
        tg_py_workspace *ws = tg_py_take_workspace(self, given);
        if (ws != NULL) {
            if (tg_py_run(self, ws, &p, NULL) == 0) {
                PyObject *gradients = tg_py_gradients(&p, self->model);
                PyObject *scores = gradients == NULL ? NULL : tg_py_split_scores(&p);
                if (scores != NULL) result = Py_BuildValue("NN", scores, gradients);
                else Py_XDECREF(gradients);
            }
            tg_py_return_workspace(self, ws, given);
        }
    }
    tg_py_pass_free(&p);
    return result;
}

static PyObject *model_bytes(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "training", NULL};
    PyObject *slates;
    int training = 1;
    tg_py_batch batch;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &slates, &training)) return NULL;
    if (tg_py_batch_init(&batch, tg_state_of(object), slates) < 0) return NULL;
    tg_error err;
    int64_t bytes = tg_model_bytes(((tg_py_model *)object)->model, batch.n, batch.entries, training, &err);
    tg_py_batch_free(&batch);
    return bytes < 0 ? tg_raise(&err, NULL) : PyLong_FromLongLong(bytes);
}

static PyObject *model_share_memory(PyObject *object, PyObject *args) {
    PyObject *other;
    if (!PyArg_ParseTuple(args, "O!", Py_TYPE(object), &other)) return NULL;
    PyObject *spare = ((tg_py_model *)other)->spare, *mine = ((tg_py_model *)object)->spare;
    Py_INCREF(spare);
    ((tg_py_model *)object)->spare = spare;
    Py_DECREF(mine);
    Py_RETURN_NONE;
}

static PyObject *model_cancel(PyObject *object, PyObject *unused) {
    (void)unused;
    ((tg_py_model *)object)->cancels++;
    Py_RETURN_NONE;
}

/* ---- what it says about itself ---- */

static PyObject *get_params(PyObject *object, void *unused) {
    tg_model *m = ((tg_py_model *)object)->model;
    npy_intp dims[1] = {(npy_intp)m->P};
    (void)unused;
    return (PyObject *)tg_view(NPY_FLOAT32, 1, dims, m->weights, object, 1);
}

static PyObject *get_layout(PyObject *object, void *unused) {
    const tg_model *m = ((tg_py_model *)object)->model;
    PyObject *list = PyList_New(m->n_params);
    (void)unused;
    for (int i = 0; list != NULL && i < m->n_params; i++) {
        const tg_param *p = &m->params[i];
        PyObject *item = Py_BuildValue("(sLN)", p->name, (long long)p->offset, tg_py_param_shape(p));
        if (item == NULL) Py_CLEAR(list);
        else PyList_SetItem(list, i, item);
    }
    return list;
}

static PyObject *get_slots(PyObject *object, void *unused) {
    (void)unused;
    return tg_py_list_slots(((tg_py_model *)object)->model);
}

static PyObject *get_num_parameters(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(((tg_py_model *)object)->model->P);
}

/* What decides how configs are cut into chunks, and whether a graph may be. */
static PyObject *get_flag(PyObject *object, void *which) {
    const tg_model *m = ((tg_py_model *)object)->model;
    const int flags[] = {(m->flags & TG_ACROSS_CONFIGS) != 0, m->per_config, m->per_graph};
    return PyBool_FromLong(flags[(intptr_t)which]);
}

static PyObject *model_chunk_size(PyObject *object, PyObject *args) {
    long long most, nodes;
    if (!PyArg_ParseTuple(args, "LL", &most, &nodes)) return NULL;
    if (most < 1 || nodes < 1)
        return PyErr_Format(PyExc_ValueError, "most, nodes: expected at least 1, got %lld, %lld", most,
                            nodes);
    return PyLong_FromLongLong(tg_network_chunk(((tg_py_model *)object)->model, most, nodes));
}

static PyObject *get_memory(PyObject *object, void *unused) {
    const tg_py_model *self = (tg_py_model *)object;
    size_t bytes = 0;
    (void)unused;
    for (Py_ssize_t i = 0; i < PyList_Size(self->spare); i++)
        bytes += tg_workspace_bytes(&((tg_py_workspace *)PyList_GetItem(self->spare, i))->workspace);
    return PyLong_FromSize_t(bytes);
}

/* (phase, step, seconds) of the last pass in a workspace, if it was one of this model. */
static PyObject *profile(const tg_model *m, const tg_workspace *ws) {
    static const char *const kinds[] = {"forward", "recompute", "backward"};
    PyObject *list = PyList_New(0);
    const int mine = ws->last != NULL && ws->last_model == m->number;
    for (int i = 0; list != NULL && mine && i < ws->last->n_events; i++) {
        const tg_event *e = &ws->last->events[i];
        if (e->nested) continue; /* part of another event's time */
        tg_append(&list, Py_BuildValue("(ssd)", kinds[e->kind], m->steps[e->step].name, ws->seconds[i]));
    }
    return list;
}

/* The workspace is taken as for a pass: while the list is made, another thread may begin one. */
static PyObject *get_profile(PyObject *object, void *unused) {
    tg_py_model *self = (tg_py_model *)object;
    (void)unused;
    if (PyList_Size(self->spare) == 0) return PyList_New(0);
    tg_py_workspace *ws = tg_py_take_workspace(self, NULL);
    if (ws == NULL) return NULL;
    PyObject *list = profile(self->model, &ws->workspace);
    tg_py_return_workspace(self, ws, NULL);
    return list;
}

static PyGetSetDef model_getset[] = {
    {"params", get_params, NULL, PyDoc_STR("(P,) float32, writable view of all parameters"), NULL},
    {"layout", get_layout, NULL, PyDoc_STR("list of (name, offset, shape) of every parameter"), NULL},
    {"slots", get_slots, NULL, PyDoc_STR("{name: (rows, columns)} of every slot"), NULL},
    {"num_parameters", get_num_parameters, NULL, PyDoc_STR("P"), NULL},
    {"across_configs", get_flag, NULL, PyDoc_STR("Whether a score depends on other configs"), (void *)0},
    {"per_config", get_flag, NULL, PyDoc_STR("Whether there are rows per node and config"), (void *)1},
    {"per_graph", get_flag, NULL, PyDoc_STR("Whether rows of a node depend on all nodes of its graph"),
     (void *)2},
    {"memory", get_memory, NULL, PyDoc_STR("Bytes of working memory held now"), NULL},
    {"profile", get_profile, NULL, PyDoc_STR("(phase, step, seconds) of every event of the last pass"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef model_methods[] = {
    {"scores", (PyCFunction)(void (*)(void))model_scores, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("List of (C,) float32 scores, one per slate.")},
    {"score_prepared", (PyCFunction)(void (*)(void))model_score, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("score_prepared(prepared, rows (n,), most, precision='f32', done=None) -> (n,) float32: "
               "scores of configs "
               "of a Prepared, at most `most` in a pass; done(number) is called after every pass.")},
    {"run", (PyCFunction)(void (*)(void))model_run, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("{name: list of arrays} of any slots.")},
    {"input_gradients", (PyCFunction)(void (*)(void))model_input_gradients, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR(
         "(scores, {name: list of arrays}): gradients of inputs and \"digits\" from those of the scores.")},
    {"bytes", (PyCFunction)(void (*)(void))model_bytes, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("Bytes of working memory a pass over these slates needs.")},
    {"chunk_size", model_chunk_size, METH_VARARGS,
     PyDoc_STR("chunk_size(most, nodes): configs of a pass, what is fastest, at most `most`; `most` itself "
               "if the model looks across configs, or does all its work on nodes once per pass.")},
    {"share_memory", model_share_memory, METH_VARARGS,
     PyDoc_STR("Take spare working memory from where another model takes it, and return it there.")},
    {"cancel", model_cancel, METH_NOARGS,
     PyDoc_STR("End the passes that other threads are running with KeyboardInterrupt there.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_getset, model_getset},
    {Py_tp_methods, model_methods},
    {Py_tp_doc, (void *)PyDoc_STR("A model: steps over slots and one flat parameter vector.")},
    {0, NULL},
};

static PyType_Spec model_spec = {.name = "tpugraphs._core.Model",
                                 .basicsize = sizeof(tg_py_model),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = model_slots};

static PyGetSetDef workspace_getset[] = {
    {"memory", get_workspace_memory, NULL, PyDoc_STR("Bytes of working memory held now"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot workspace_slots[] = {
    {Py_tp_dealloc, workspace_dealloc},
    {Py_tp_getset, workspace_getset},
    {Py_tp_doc, (void *)PyDoc_STR("Memory for passes, of any model, one at a time.")},
    {0, NULL},
};

static PyType_Spec workspace_spec = {.name = "tpugraphs._core.Workspace",
                                     .basicsize = sizeof(tg_py_workspace),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = workspace_slots};

int tg_add_model_types(PyObject *module) {
    tg_state *state = PyModule_GetState(module);
    if (tg_add_model_graph_type(module) < 0 || tg_add_prepared_type(module) < 0 ||
        tg_add_store_type(module) < 0 || tg_add_visits_type(module) < 0 || tg_add_segments_type(module) < 0)
        return -1;
    if (tg_add_type(module, &model_spec, "Model", &state->model) < 0) return -1;
    return tg_add_type(module, &workspace_spec, "Workspace", &state->workspace);
}
