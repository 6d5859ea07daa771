/* The Python type _core.Trainer: gradients and optimizer state of one model. */
#include "py/py_model.h"

#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "py/py_optim.h"

typedef struct py_trainer {
    PyObject_HEAD tg_py_model *model;
    PyObject *workspace;                        /* the caller's, or NULL: spare ones of the model */
    pid_t busy;                                 /* process in which a pass fills the gradients, 0: none */
    float *block, *vectors[1 + TG_MAX_MOMENTS]; /* gradients, moments: (P) each */
} py_trainer;

static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"model", "workspace", NULL};
    PyObject *model, *workspace = NULL;
    const tg_state *state = PyType_GetModuleState(type);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O", names, state->model, &model, &workspace))
        return NULL;
    if (workspace != NULL && workspace != Py_None && !tg_py_is_workspace(state, workspace)) return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    py_trainer *self = (py_trainer *)alloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(model);
    self->model = (tg_py_model *)model;
    if (workspace != NULL && workspace != Py_None) {
        Py_INCREF(workspace);
        self->workspace = workspace;
    }
    int64_t stride;
    /* The first vector is left out: the weights lie where it would. */
    self->block = tg_model_vectors(self->model->model, 2 + TG_MAX_MOMENTS, &stride);
    if (self->block == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (int i = 0; i <= TG_MAX_MOMENTS; i++) self->vectors[i] = self->block + (i + 1) * stride;
    return (PyObject *)self;
}

static void trainer_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    py_trainer *self = (py_trainer *)object;
    tg_aligned_free(self->block);
    Py_XDECREF((PyObject *)self->model);
    Py_XDECREF(self->workspace);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* What gradients and step have in common. */
typedef struct train_args {
    PyObject *slates, *targets, *losses, *optimizer, *inputs, *lists, *part, *of;
    const char *precision;
    unsigned long long seed;
    long long step;
} train_args;

static int prepare(py_trainer *self, const train_args *a, tg_py_pass *p) {
    const tg_model *m = self->model->model;
    const uint64_t key = tg_key(tg_key(a->seed, 0xd409), (uint64_t)a->step);
    if (tg_py_pass_init(p, tg_state_of((PyObject *)self), m, a->slates, a->precision, 1) < 0 ||
        tg_py_pass_feed(p, m, a->inputs) < 0 || tg_py_pass_scores(p, m) < 0 ||
        tg_py_pass_losses(p, tg_state_of((PyObject *)self), a->losses, a->targets, a->lists, key) < 0 ||
        tg_py_pass_part(p, a->part) < 0)
        return -1;
    if (a->of != NULL && a->of != Py_None && tg_py_pass_gradients(p, m, a->of) < 0) return -1;
    p->pass.grads = self->vectors[0];
    return 0;
}

/* The pass, and with `update` the update of the weights. */
static int run(py_trainer *self, tg_py_pass *p, const tg_py_update *update) {
    if (self->busy == getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "this trainer is in use by another thread");
        return -1;
    }
    tg_py_workspace *ws = tg_py_take_workspace(self->model, self->workspace);
    if (ws == NULL) return -1;
    self->busy = getpid();
    const int status = tg_py_run(self->model, ws, p, update);
    self->busy = 0;
    tg_py_return_workspace(self->model, ws, self->workspace);
    return status;
}

static PyObject *trainer_gradients(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates", "targets", "losses", "step", "seed", "precision",
                            "part",   "inputs",  "lists",  "of",   NULL};
    py_trainer *self = (py_trainer *)object;
    train_args a = {.precision = "f32", .step = 1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|LKsO!OOO", names, &a.slates, &a.targets, &a.losses,
                                     &a.step, &a.seed, &a.precision, &PyTuple_Type, &a.part, &a.inputs,
                                     &a.lists, &a.of))
        return NULL;
    tg_py_pass p;
    PyObject *result = NULL;
    if (prepare(self, &a, &p) == 0 && run(self, &p, NULL) == 0) {
        PyObject *scores = tg_py_split_scores(&p);
        PyObject *inputs = scores == NULL ? NULL : tg_py_gradients(&p, self->model->model);
        if (inputs != NULL && a.of != NULL && a.of != Py_None)
            result = Py_BuildValue("dNN", p.pass.loss_value, scores, inputs);
        else if (inputs != NULL) result = Py_BuildValue("dN", p.pass.loss_value, scores);
        if (inputs == NULL) Py_XDECREF(scores);
        else if (a.of == NULL || a.of == Py_None) Py_DECREF(inputs);
    }
    tg_py_pass_free(&p);
    return result;
}

static float *const *moments(py_trainer *self) { return self->vectors + 1; }

static PyObject *trainer_step(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"slates",    "targets", "losses", "optimizer", "seed",
                            "precision", "part",    "inputs", "lists",     NULL};
    py_trainer *self = (py_trainer *)object;
    train_args a = {.precision = "f32"};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO|KsO!OO", names, &a.slates, &a.targets, &a.losses,
                                     &a.optimizer, &a.seed, &a.precision, &PyTuple_Type, &a.part, &a.inputs,
                                     &a.lists))
        return NULL;
    tg_optimizer optimizer;
    tg_py_pass p;
    memset(&p, 0, sizeof p);
    PyObject *result = NULL;
    int status = tg_py_optimizer(a.optimizer, self->model->model->P, &optimizer);
    a.step = optimizer.step;
    if (status == 0 && (status = prepare(self, &a, &p)) == 0 && p.pass.part != p.pass.parts - 1) {
        PyErr_Format(PyExc_ValueError,
                     "part: a step takes the last of %d parts, got %d; give the others to gradients",
                     p.pass.parts, p.pass.part);
        status = -1;
    }
    const tg_py_update update = {&optimizer, moments(self)};
    if (status == 0 && run(self, &p, &update) == 0) result = PyFloat_FromDouble(p.pass.loss_value);
    tg_py_pass_free(&p);
    tg_optimizer_free(&optimizer);
    return result;
}

static PyObject *trainer_update(PyObject *object, PyObject *args) {
    py_trainer *self = (py_trainer *)object;
    tg_model *m = self->model->model;
    PyObject *dict, *result = NULL;
    tg_optimizer optimizer;
    if (!PyArg_ParseTuple(args, "O", &dict) || tg_py_optimizer(dict, m->P, &optimizer) < 0) return NULL;
    if (tg_py_begin_update(self->model) == 0) {
        tg_error err;
        tg_status status;
        double norm;
        Py_BEGIN_ALLOW_THREADS
        status =
            tg_optimizer_update(&optimizer, m->P, m->weights, self->vectors[0], moments(self), &norm, &err);
        Py_END_ALLOW_THREADS
        tg_py_end_update(self->model);
        result = status == TG_OK ? PyFloat_FromDouble(norm) : tg_raise(&err, NULL);
    }
    tg_optimizer_free(&optimizer);
    return result;
}

static PyObject *get_vector(PyObject *object, void *which) {
    py_trainer *self = (py_trainer *)object;
    npy_intp dims[1] = {(npy_intp)self->model->model->P};
    return (PyObject *)tg_view(NPY_FLOAT32, 1, dims, self->vectors[(intptr_t)which], object, 1);
}

static PyObject *get_model(PyObject *object, void *unused) {
    PyObject *model = (PyObject *)((py_trainer *)object)->model;
    (void)unused;
    Py_INCREF(model);
    return model;
}

static PyGetSetDef trainer_getset[] = {
    {"model", get_model, NULL, PyDoc_STR("The model that is trained"), NULL},
    {"grads", get_vector, NULL, PyDoc_STR("(P,) float32, writable view of the last gradients"), (void *)0},
    {"moment1", get_vector, NULL, PyDoc_STR("(P,) float32 view of the optimizer's first moments"), (void *)1},
    {"moment2", get_vector, NULL, PyDoc_STR("(P,) float32 view of its second moments"), (void *)2},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef trainer_methods[] = {
    {"gradients", (PyCFunction)(void (*)(void))trainer_gradients, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("(loss, scores) and the gradients in .grads; with `of` also those of inputs.")},
    {"step", (PyCFunction)(void (*)(void))trainer_step, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("Gradients and update in one call; the loss.")},
    {"update", trainer_update, METH_VARARGS,
     PyDoc_STR("Update the weights by the gradients in .grads; their norm before clipping.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot trainer_slots[] = {
    {Py_tp_new, trainer_new},
    {Py_tp_dealloc, trainer_dealloc},
    {Py_tp_getset, trainer_getset},
    {Py_tp_methods, trainer_methods},
    {Py_tp_doc, (void *)PyDoc_STR("Gradients and optimizer state of a model.")},
    {0, NULL},
};

static PyType_Spec trainer_spec = {.name = "tpugraphs._core.Trainer",
                                   .basicsize = sizeof(py_trainer),
                                   .flags = Py_TPFLAGS_DEFAULT,
                                   .slots = trainer_slots};

int tg_add_trainer_type(PyObject *module) { return tg_add_type(module, &trainer_spec, "Trainer", NULL); }
