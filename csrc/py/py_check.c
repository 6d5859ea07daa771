/* Whether the core was built with its own checks, and a fault on purpose that shows that they work. */
#include "py/pycore.h"

#include <string.h>

#include "ops/op.h"

#ifdef TG_CHECKED
#include "base/arena.h"

typedef struct attrs {
    int memory, past;
} attrs;

typedef struct room {
    float *place;
} room;

enum { FLOATS = 20 };

static tg_status plan(tg_op_plan *p, tg_error *err) {
    (void)err;
    p->out = (tg_shape){TG_SPACE_NODE, 1};
    return TG_OK;
}

static void carve(const tg_exec *e, int back, tg_carver *c, void *to) {
    const attrs *a = e->attrs;
    (void)back;
    ((room *)to)->place = tg_carve(c, (tg_memory)a->memory, FLOATS);
    tg_carve(c, (tg_memory)a->memory, FLOATS); /* what an overrun would hit */
}

static void forward(const tg_exec *e, const tg_tile *t, float *y) {
    const attrs *a = e->attrs;
    volatile float *place = ((const room *)e->room)->place;
    for (int i = 0; i < FLOATS + a->past; i++) place[i] = 1;
    for (int i = 0; i < t->rows; i++) y[i] = place[0];
}

static const tg_op overrunning = {.name = "overrun",
                                  .doc = "Writes past its memory.",
                                  .plan = plan,
                                  .carve = carve,
                                  .forward = {{.over = TG_OVER_OUTPUT, .forward = forward}}};

static PyObject *overrun(PyObject *self, PyObject *args) {
    attrs a;
    float y[1] = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "ii", &a.memory, &a.past)) return NULL;
    const tg_slate slate = {.N = 1, .C = 1};
    tg_exec e = {.op = &overrunning,
                 .k = tg_kernel_table(),
                 .slate = &slate,
                 .attrs = &a,
                 .out = {TG_SPACE_NODE, 1},
                 .threads = 1,
                 .y = y};
    float *block = tg_aligned_alloc((size_t)tg_place_call(&e, 0, NULL) * sizeof(float));
    if (block == NULL) return PyErr_NoMemory();
    tg_place_call(&e, 0, block);
    tg_run(&e, 0);
    tg_aligned_free(block);
    return PyFloat_FromDouble((double)y[0]);
}
#else
static PyObject *overrun(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyErr_SetString(PyExc_RuntimeError, "the core was built without checks: build with TPUGRAPHS_DEBUG=1");
    return NULL;
}
#endif

static PyObject *checked(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyBool_FromLong(TG_REDZONE > 0);
}

PyMethodDef tg_check_methods[] = {
    {"checked", checked, METH_NOARGS, PyDoc_STR("Whether the core was built with redzones and assertions.")},
    {"overrun", overrun, METH_VARARGS,
     PyDoc_STR(
         "(memory, past): write `past` floats too many, to see that a checked build ends the process.")},
    {NULL, NULL, 0, NULL},
};
