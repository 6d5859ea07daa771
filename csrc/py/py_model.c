/* The Python type _core.Model: a list of steps, its flat parameters, and passes over batches. */
#include "py/py_graph_type.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/model.h"
#include "py/py_ops.h"
#include "py/py_optim.h"
#include "py/py_rank.h"

typedef struct py_model {
    PyObject_HEAD tg_model *model;
    pid_t busy; /* process in which a pass is running without the GIL, 0: none. A child made by fork meanwhile
                   may use the model; its weights may then be half updated. */
    int cancelled; /* another thread wants the running pass to end; guarded by the GIL */
} py_model;

static int copy_text(PyObject *text, const char *what, char *to, size_t size) {
    Py_ssize_t length;
    const char *utf8 = text == NULL || !PyUnicode_Check(text) ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
    if (utf8 == NULL || (size_t)length >= size || memchr(utf8, 0, (size_t)length) != NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "a step's '%s' must be text of at most %zu characters", what,
                         size - 1);
        return -1;
    }
    memcpy(to, utf8, (size_t)length + 1);
    return 0;
}

int tg_py_attrs(PyObject *dict, tg_attr_value *values, int *count) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *count = 0;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "attrs must be a dict");
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (*count == TG_MAX_ATTRS) {
            PyErr_Format(PyExc_ValueError, "an op has at most %d attributes", TG_MAX_ATTRS);
            return -1;
        }
        tg_attr_value *v = &values[(*count)++];
        memset(v, 0, sizeof *v);
        if (copy_text(key, "attrs", v->key, sizeof v->key) < 0) return -1;
        v->is_word = PyUnicode_Check(value);
        if (v->is_word && copy_text(value, "attrs", v->word, sizeof v->word) < 0) return -1;
        if (!v->is_word) {
            /* plain numbers only: nothing that runs Python code while the dict is walked */
            if (PyFloat_Check(value)) v->number = PyFloat_AsDouble(value);
            else if (PyLong_Check(value)) v->number = PyLong_AsDouble(value);
            else PyErr_Format(PyExc_TypeError, "attrs: '%s' must be a number or text", v->key);
            if (PyErr_Occurred()) return -1;
        }
    }
    return 0;
}

static int parse_step(PyObject *dict, tg_step_spec *spec) {
    memset(spec, 0, sizeof *spec);
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "steps: every step must be a dict");
        return -1;
    }
    if (copy_text(PyDict_GetItemString(dict, "op"), "op", spec->op, sizeof spec->op) < 0 ||
        copy_text(PyDict_GetItemString(dict, "name"), "name", spec->name, sizeof spec->name) < 0 ||
        copy_text(PyDict_GetItemString(dict, "out"), "out", spec->out, sizeof spec->out) < 0)
        return -1;
    PyObject *in = PyDict_GetItemString(dict, "in"), *attrs = PyDict_GetItemString(dict, "attrs");
    PyObject *share = PyDict_GetItemString(dict, "share");
    PyObject *table = share != NULL && PyDict_Check(share) ? PyDict_GetItemString(share, "table") : NULL;
    if (table != NULL && copy_text(table, "share", spec->table, sizeof spec->table) < 0) return -1;
    if (share != NULL && table == NULL) {
        PyErr_SetString(PyExc_ValueError, "a step's 'share' must be {\"table\": parameter name}");
        return -1;
    }
    if (in == NULL || !PyList_Check(in) || PyList_Size(in) < 1 || PyList_Size(in) > TG_MAX_IN) {
        PyErr_Format(PyExc_ValueError, "step '%s': 'in' must be a list of 1 to %d slot names", spec->name,
                     TG_MAX_IN);
        return -1;
    }
    spec->n_in = (int)PyList_Size(in);
    for (int i = 0; i < spec->n_in; i++)
        if (copy_text(PyList_GetItem(in, i), "in", spec->in[i], sizeof spec->in[i]) < 0) return -1;
    return attrs == NULL ? 0 : tg_py_attrs(attrs, spec->attrs, &spec->n_attrs);
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"steps", "seed", "node_features", "lean", "config_features", NULL};
    PyObject *steps;
    unsigned long long seed = 0;
    int features = 134, lean = 0, configs = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|Kipi", names, &PyList_Type, &steps, &seed, &features,
                                     &lean, &configs))
        return NULL;
    if (features < 1 || features > 65536 || configs < 0 || configs > 65536) {
        PyErr_Format(PyExc_ValueError,
                     "node_features: expected 1..65536, config_features: 0..65536, got %d, %d", features,
                     configs);
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_model *self = (py_model *)alloc(type, 0);
    if (self == NULL) return NULL;
    tg_error err;
    tg_step_spec spec;
    tg_status status = TG_OK;
    if ((self->model = tg_model_new(features, configs)) == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->model->lean = lean;
    for (Py_ssize_t i = 0; status == TG_OK && i < PyList_Size(steps); i++) {
        if (parse_step(PyList_GetItem(steps, i), &spec) < 0) {
            Py_DECREF(self);
            return NULL;
        }
        status = tg_model_add_step(self->model, &spec, &err);
    }
    if (status == TG_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = tg_model_finish(self->model, seed, &err);
        Py_END_ALLOW_THREADS
    }
    if (status != TG_OK) {
        Py_DECREF(self);
        return tg_raise(&err, NULL);
    }
    return (PyObject *)self;
}

static void model_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tg_model_free(((py_model *)object)->model);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* ---- passes ---- */

static int parse_loss(PyObject *tuple, tg_loss_spec *spec, uint64_t key) {
    const char *kind, *reduction;
    double margin;
    if (!PyArg_ParseTuple(tuple, "sds;loss must be (name, margin, reduction)", &kind, &margin, &reduction))
        return -1;
    *spec = (tg_loss_spec){.margin = (float)margin, .key = key};
    return tg_py_loss_names(kind, reduction, spec) ? 0 : -1;
}

/* The precision called `name`, or -1 with an exception. */
static int parse_precision(const char *name, int training) {
    const int precision = tg_find_precision(name);
    if (precision < 0 || (training && precision == TG_INT8)) {
        PyErr_Format(PyExc_ValueError, "precision: expected %s, got '%s'",
                     training ? "'f32' or 'bf16'" : "'f32', 'bf16' or 'int8'", name);
        return -1;
    }
    return precision;
}

/* All runtimes one after the other; checked against the batch. Free with free(). */
static int64_t *gather_runtimes(PyObject *runtimes, const tg_py_batch *batch) {
    PyObject *items = PySequence_Tuple(runtimes);
    int64_t *all = malloc((size_t)batch->total * sizeof *all), at = 0;
    if (items == NULL || all == NULL) {
        if (all == NULL) PyErr_NoMemory();
        goto fail;
    }
    if (PyTuple_Size(items) != batch->n) {
        PyErr_Format(PyExc_ValueError, "runtimes: expected one array per slate (%d), got %zd", batch->n,
                     PyTuple_Size(items));
        goto fail;
    }
    for (int i = 0; i < batch->n; i++) {
        npy_intp dims[1] = {batch->entries[i].C};
        PyArrayObject *a = tg_array(PyTuple_GetItem(items, i), "runtimes", NPY_INT64, 1, dims, "(C,)");
        if (a == NULL) goto fail;
        memcpy(all + at, PyArray_DATA(a), (size_t)dims[0] * sizeof *all);
        at += dims[0];
    }
    Py_DECREF(items);
    return all;
fail:
    Py_XDECREF(items);
    free(all);
    return NULL;
}

/* 0 if no pass is running, or -1 with an exception. */
static int check_idle(const py_model *self) {
    if (self->busy != getpid()) return 0;
    PyErr_SetString(PyExc_RuntimeError, "this model is in use by another thread");
    return -1;
}

static int poll_model(void *context) {
    PyGILState_STATE gil = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() != 0;
    if (!stop && ((py_model *)context)->cancelled) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        stop = 1;
    }
    PyGILState_Release(gil);
    return stop;
}

/* Whether the model takes this graph, else an exception. */
static int takes(const tg_model *m, int slate, const tg_graph *g) {
    const int features = m->slots[TG_SLOT_NODE_FEAT].shape.cols,
              configs = m->slots[TG_SLOT_CONFIG_FEAT].shape.cols;
    if (g->F == features && g->layout != NULL && g->has_configs && g->T == configs) return 1;
    PyErr_Format(
        PyExc_ValueError,
        "slate %d: the model wants graphs of %d features with layout digits and configs%s, got %d%s%s%s",
        slate, features, configs > 0 ? " as features" : "", g->F,
        g->layout == NULL ? ", no layout digits" : "", g->has_configs ? "" : ", no configs",
        g->has_configs && g->T != configs ? ", configs of another kind" : "");
    return 0;
}

/* Run without the GIL; 0, or -1 with an exception. One pass at a time per model. */
static int run(py_model *self, tg_pass *pass) {
    if (check_idle(self) < 0) return -1;
    for (int i = 0; i < pass->n_entries; i++)
        if (!takes(self->model, i, pass->entries[i].graph)) return -1;
    tg_error err;
    tg_status status;
    tg_cancel cancel = {poll_model, self, 0};
    pass->cancel = &cancel;
    self->cancelled = 0;
    self->busy = getpid();
    Py_BEGIN_ALLOW_THREADS
    status = tg_model_run(self->model, pass, &err);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    if (status == TG_OK) return 0;
    tg_raise(&err, NULL);
    return -1;
}

/* Scores of all entries as a list of arrays. */
static PyObject *split_scores(const tg_py_batch *batch, const float *scores) {
    PyObject *list = PyList_New(batch->n);
    for (int i = 0; list != NULL && i < batch->n; i++) {
        npy_intp dims[1] = {batch->entries[i].C};
        PyArrayObject *a = tg_new_array(NPY_FLOAT32, 1, dims);
        if (a == NULL) {
            Py_CLEAR(list);
            break;
        }
        memcpy(PyArray_DATA(a), scores, (size_t)dims[0] * sizeof *scores);
        scores += dims[0];
        PyList_SetItem(list, i, (PyObject *)a);
    }
    return list;
}

static PyObject *model_scores(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "precision", NULL};
    const char *name = "f32";
    tg_py_batch batch;
    PyObject *slates, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|s", names, &slates, &name)) return NULL;
    const int precision = parse_precision(name, 0);
    if (precision < 0) return NULL;
    if (tg_py_batch_init(&batch, slates) < 0) return NULL;
    float *scores = malloc((size_t)batch.total * sizeof *scores);
    tg_pass pass = {.n_entries = batch.n,
                    .entries = batch.entries,
                    .scores = scores,
                    .precision = (tg_precision)precision};
    if (scores == NULL) PyErr_NoMemory();
    else if (run((py_model *)object, &pass) == 0) result = split_scores(&batch, scores);
    free(scores);
    tg_py_batch_free(&batch);
    return result;
}

/* A part (number, parts) of a batch; parts 0 if there is an exception. */
typedef struct batch_part {
    int part, parts;
} batch_part;

/* `tuple` may be NULL: the whole batch. */
static batch_part parse_part(PyObject *tuple) {
    batch_part p = {0, 1};
    if (tuple != NULL && !PyArg_ParseTuple(tuple, "ii;part must be (number, parts)", &p.part, &p.parts))
        return (batch_part){0, 0};
    if (p.parts >= 1 && p.part >= 0 && p.part < p.parts && p.parts <= 1 << 16) return p;
    PyErr_Format(PyExc_ValueError,
                 "part: expected (number, parts) with 0 <= number < parts <= 65536, got (%d, %d)", p.part,
                 p.parts);
    return (batch_part){0, 0};
}

/* Shared by step and gradients: returns loss and scores (caller frees), or NULL. */
static float *train_pass(PyObject *object, PyObject *slates, PyObject *runtimes, PyObject *loss,
                         const char *precision_name, uint64_t seed, const tg_optimizer *optimizer,
                         int64_t step, batch_part part, tg_py_batch *batch, double *value) {
    tg_loss_spec spec;
    const uint64_t key = tg_key(tg_key(seed, 0xd409), (uint64_t)step);
    const int precision = parse_precision(precision_name, 1);
    if (precision < 0 || parse_loss(loss, &spec, key) < 0 || tg_py_batch_init(batch, slates) < 0) return NULL;
    int64_t *times = gather_runtimes(runtimes, batch);
    float *scores = times == NULL ? NULL : malloc((size_t)batch->total * sizeof *scores);
    if (times != NULL && scores == NULL) PyErr_NoMemory();
    tg_pass pass = {.n_entries = batch->n,
                    .entries = batch->entries,
                    .scores = scores,
                    .loss = &spec,
                    .runtimes = times,
                    .optimizer = optimizer,
                    .part = part.part,
                    .parts = part.parts,
                    .key = key,
                    .precision = (tg_precision)precision};
    if (scores == NULL || run((py_model *)object, &pass) < 0) {
        free(scores);
        scores = NULL;
        tg_py_batch_free(batch);
    }
    free(times);
    *value = pass.loss_value;
    return scores;
}

static PyObject *model_step(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "runtimes", "loss",  "lr",  "weight_decay", "clip", "step",
                            "seed",   "beta1",    "beta2", "eps", "precision",    "part", NULL};
    const char *precision = "f32";
    PyObject *slates, *runtimes, *loss, *tuple = NULL;
    long long step;
    unsigned long long seed = 0;
    const int64_t P = ((py_model *)object)->model->P;
    tg_group all = {.end = P, .lr_scale = 1};
    tg_optimizer o = {
        .kind = TG_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .n_groups = 1, .groups = &all};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!dddL|KdddsO!", names, &slates, &runtimes,
                                     &PyTuple_Type, &loss, &o.lr, &all.weight_decay, &o.clip, &step, &seed,
                                     &o.beta1, &o.beta2, &o.eps, &precision, &PyTuple_Type, &tuple))
        return NULL;
    o.step = step;
    const batch_part part = parse_part(tuple);
    if (part.parts == 0 || !tg_py_check_optimizer(&o, P)) return NULL;
    if (part.part != part.parts - 1) {
        PyErr_Format(PyExc_ValueError,
                     "part: a step takes the last of %d parts, got %d; give the others to gradients",
                     part.parts, part.part);
        return NULL;
    }
    tg_py_batch batch;
    double value;
    float *scores =
        train_pass(object, slates, runtimes, loss, precision, seed, &o, step, part, &batch, &value);
    if (scores == NULL) return NULL;
    free(scores);
    tg_py_batch_free(&batch);
    return PyFloat_FromDouble(value);
}

static PyObject *model_gradients(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "runtimes", "loss", "step", "seed", "precision", "part", NULL};
    const char *precision = "f32";
    PyObject *slates, *runtimes, *loss, *tuple = NULL;
    long long step = 1;
    unsigned long long seed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!|LKsO!", names, &slates, &runtimes, &PyTuple_Type,
                                     &loss, &step, &seed, &precision, &PyTuple_Type, &tuple))
        return NULL;
    const batch_part part = parse_part(tuple);
    if (part.parts == 0) return NULL;
    tg_py_batch batch;
    double value;
    float *scores =
        train_pass(object, slates, runtimes, loss, precision, seed, NULL, step, part, &batch, &value);
    if (scores == NULL) return NULL;
    PyObject *list = split_scores(&batch, scores);
    free(scores);
    tg_py_batch_free(&batch);
    return list == NULL ? NULL : Py_BuildValue("dN", value, list);
}

static PyObject *model_bytes(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "training", NULL};
    PyObject *slates;
    int training = 1;
    tg_py_batch batch;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &slates, &training)) return NULL;
    if (tg_py_batch_init(&batch, slates) < 0) return NULL;
    tg_error err;
    int64_t bytes = tg_model_bytes(((py_model *)object)->model, batch.n, batch.entries, training, &err);
    tg_py_batch_free(&batch);
    return bytes < 0 ? tg_raise(&err, NULL) : PyLong_FromLongLong(bytes);
}

static PyObject *model_cancel(PyObject *object, PyObject *unused) {
    (void)unused;
    ((py_model *)object)->cancelled = 1;
    Py_RETURN_NONE;
}

static PyObject *model_take_memory(PyObject *object, PyObject *args) {
    PyObject *from;
    if (!PyArg_ParseTuple(args, "O!", Py_TYPE(object), &from)) return NULL;
    if (check_idle((py_model *)object) < 0 || check_idle((py_model *)from) < 0) return NULL;
    tg_arena *mine = &((py_model *)object)->model->arena, *theirs = &((py_model *)from)->model->arena;
    const tg_arena swap = *mine;
    if (mine->size < theirs->size) *mine = *theirs, *theirs = swap;
    Py_RETURN_NONE;
}

static PyObject *get_memory(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(((py_model *)object)->model->arena.size);
}

/* ---- parameters ---- */

static PyObject *get_vector(PyObject *object, void *which) {
    tg_model *m = ((py_model *)object)->model;
    float *vectors[] = {m->weights, m->grads, m->moment1, m->moment2};
    npy_intp dims[1] = {(npy_intp)m->P};
    return (PyObject *)tg_view(NPY_FLOAT32, 1, dims, vectors[(intptr_t)which], object, 1);
}

static PyObject *get_layout(PyObject *object, void *unused) {
    const tg_model *m = ((py_model *)object)->model;
    PyObject *list = PyList_New(m->n_params);
    (void)unused;
    for (int i = 0; list != NULL && i < m->n_params; i++) {
        const tg_param *p = &m->params[i];
        PyObject *shape =
            p->cols == 0 ? Py_BuildValue("(i)", p->rows) : Py_BuildValue("(ii)", p->rows, p->cols);
        PyObject *item = shape == NULL ? NULL : Py_BuildValue("(sLN)", p->name, (long long)p->offset, shape);
        if (item == NULL) Py_CLEAR(list);
        else PyList_SetItem(list, i, item);
    }
    return list;
}

static PyObject *get_num_parameters(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(((py_model *)object)->model->P);
}

static PyObject *get_profile(PyObject *object, void *unused) {
    static const char *const kinds[] = {"forward", "recompute", "backward"};
    const tg_model *m = ((py_model *)object)->model;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int i = 0; list != NULL && m->last != NULL && i < m->last->n_events; i++) {
        const tg_event *e = &m->last->events[i];
        if (e->nested) continue; /* part of another event's time */
        PyObject *item = Py_BuildValue("(ssd)", kinds[e->kind], m->steps[e->step].name, m->seconds[i]);
        if (item == NULL || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyGetSetDef model_getset[] = {
    {"params", get_vector, NULL, PyDoc_STR("(P,) float32, writable view of all parameters"), (void *)0},
    {"grads", get_vector, NULL, PyDoc_STR("(P,) float32 view of the last gradients"), (void *)1},
    {"moment1", get_vector, NULL, PyDoc_STR("(P,) float32 view of Adam's first moments"), (void *)2},
    {"moment2", get_vector, NULL, PyDoc_STR("(P,) float32 view of Adam's second moments"), (void *)3},
    {"layout", get_layout, NULL, PyDoc_STR("list of (name, offset, shape) of every parameter"), NULL},
    {"num_parameters", get_num_parameters, NULL, PyDoc_STR("P"), NULL},
    {"memory", get_memory, NULL, PyDoc_STR("Bytes of working memory held now"), NULL},
    {"profile", get_profile, NULL, PyDoc_STR("(phase, step, seconds) of every event of the last pass"), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef model_methods[] = {
    {"step", (PyCFunction)(void (*)(void))model_step, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("One optimizer step; the loss.")},
    {"gradients", (PyCFunction)(void (*)(void))model_gradients, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("(loss, scores) and the gradients in .grads, without an update.")},
    {"scores", (PyCFunction)(void (*)(void))model_scores, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("List of (C,) float32 scores, one per slate.")},
    {"bytes", (PyCFunction)(void (*)(void))model_bytes, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("Bytes of working memory a pass over these slates needs.")},
    {"cancel", model_cancel, METH_NOARGS,
     PyDoc_STR("End the pass that another thread is running with KeyboardInterrupt there.")},
    {"take_memory", model_take_memory, METH_VARARGS,
     PyDoc_STR("Exchange working memory with a model that has more; both must be idle.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_getset, model_getset},
    {Py_tp_methods, model_methods},
    {Py_tp_doc, (void *)PyDoc_STR("A model: steps over slots, one flat parameter vector, one static plan.")},
    {0, NULL},
};

static PyType_Spec model_spec = {.name = "tpugraphs._core.Model",
                                 .basicsize = sizeof(py_model),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = model_slots};

int tg_add_model_types(PyObject *module) {
    if (tg_add_graph_type(module) < 0) return -1;
    PyObject *type = PyType_FromSpec(&model_spec);
    if (type == NULL) return -1;
    int status = PyModule_AddObjectRef(module, "Model", type);
    Py_DECREF(type);
    return status;
}
