/* The Python types Model, Workspace and Trainer. */
#ifndef TG_PY_MODEL_H
#define TG_PY_MODEL_H

#include <unistd.h>

#include "optim/optim.h"
#include "py/py_pass.h"

typedef struct tg_py_workspace {
    PyObject_HEAD tg_workspace workspace;
    pid_t busy; /* process in which a pass runs in it without the GIL, 0: none */
} tg_py_workspace;

/* What threads do with a model at the moment; guarded by the GIL. A child made by fork while passes run has none of
   them, as `process` shows. */
typedef struct tg_py_model {
    PyObject_HEAD tg_model *model;
    pid_t process;
    int readers, writers;  /* passes that read the weights, updates of them */
    unsigned long cancels; /* raised when all running passes are to end */
    PyObject *spare;       /* list of workspaces that nobody uses */
} tg_py_model;

int tg_py_is_workspace(const tg_state *state, PyObject *object); /* if not, an exception is set */
/* A workspace of the caller's (may be NULL or None) or a spare one; a new reference, marked busy. */
tg_py_workspace *tg_py_take_workspace(tg_py_model *model, PyObject *given);
void tg_py_return_workspace(tg_py_model *model, tg_py_workspace *workspace, PyObject *given);

/* Run without the GIL; 0, or -1 with an exception. With an optimizer, the weights of `model` are updated after the
   pass: then no other thread may use them. */
typedef struct tg_py_update {
    const tg_optimizer *optimizer;
    float *const *moments;
} tg_py_update;
int tg_py_run(tg_py_model *model, tg_py_workspace *workspace, tg_py_pass *pass, const tg_py_update *update);

/* Other threads' use of the weights: 0, or -1 with an exception. */
int tg_py_begin_update(tg_py_model *model);
void tg_py_end_update(tg_py_model *model);

int tg_add_trainer_type(PyObject *module);

#endif
