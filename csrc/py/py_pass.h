/* Arguments of a pass over a batch, as Python gives them. */
#ifndef TG_PY_PASS_H
#define TG_PY_PASS_H

#include "py/py_batch.h"

#include "model/run.h"

/* One of several arrays per slate: of an input, an output or a gradient. */
typedef struct tg_py_rows {
    float **rows;     /* (n) */
    PyObject *arrays; /* list that holds them */
} tg_py_rows;

/* Everything a pass is given, and what it fills. */
typedef struct tg_py_pass {
    tg_pass pass;
    tg_py_batch batch;
    tg_losses losses;
    tg_lists lists;
    tg_slot_rows fed[TG_MAX_INPUTS], fetched[TG_MAX_SLOTS], input_grads[TG_MAX_INPUTS];
    tg_py_rows fed_rows[TG_MAX_INPUTS], fetched_rows[TG_MAX_SLOTS], input_grad_rows[TG_MAX_INPUTS],
        digit_rows;
    const tg_model *model; /* for what is made once the batch is bound */
    PyObject *unique_of;   /* list of (K,C) int32, or NULL */
    PyObject *keep[6 + TG_MAX_LOSSES];
    int n_keep;
    void *owned[8]; /* free() */
    int n_owned;
} tg_py_pass;

/* The precision called `name`, or -1 with an exception; int8 is for scoring only. */
int tg_py_precision(const char *name, int training);

/* The batch, checked against the model: 0, or -1 with an exception. tg_py_pass_free in any case. */
int tg_py_pass_init(tg_py_pass *p, const tg_state *state, const tg_model *model, PyObject *slates,
                    const char *precision, int training);
void tg_py_pass_free(tg_py_pass *p);

/* {"name": [array per slate], ...}: the inputs that are fed per call, all of them. NULL or None: none. */
int tg_py_pass_feed(tg_py_pass *p, const tg_model *model, PyObject *inputs);
/* Names of slots whose rows are wanted, "unique_of" among them: the row of every cell in slots of unique cells. */
int tg_py_pass_fetch(tg_py_pass *p, const tg_model *model, PyObject *names);
/* Scores of all entries are wanted. */
int tg_py_pass_scores(tg_py_pass *p, const tg_model *model);
/* Names of inputs whose gradients are wanted, "digits" among them. */
int tg_py_pass_gradients(tg_py_pass *p, const tg_model *model, PyObject *names);
/* Targets: a list of int64 arrays, one per slate, their exact order; or a dict of such lists, "order", "value" (float64),
   "weight" (float32) and "time" (float64); or, of prepared graphs, (name of the value or None, whether their order counts
   across graphs). Lists: a dict "offsets", "index", "scale", "shift"; or, of a recipe, (kind, most) as in recipe_lists, with
   the scale and shift of the slates; or NULL. */
int tg_py_pass_losses(tg_py_pass *p, const tg_state *state, PyObject *losses, PyObject *targets,
                      PyObject *lists, uint64_t key);
/* What a callback returns for the scores of a slate must be a pair or None: 0, or -1 with an exception. */
int tg_py_check_moved(PyObject *moved);
/* Scale (n) and shift (n) out of a pair of numbers or arrays (n); -1 with an exception. */
int tg_py_moved(PyObject *moved, int64_t n, float *scale, float *shift);
/* Gradients of the scores to start from, one array per slate. */
int tg_py_pass_start(tg_py_pass *p, PyObject *dscores);
/* (number, parts), or NULL for the whole batch. */
int tg_py_pass_part(tg_py_pass *p, PyObject *tuple);

/* Scores of all entries as a list of arrays. */
PyObject *tg_py_split_scores(const tg_py_pass *p);
/* {"name": [array per slate]} of what was fetched, or of the gradients. */
PyObject *tg_py_fetched(const tg_py_pass *p, const tg_model *model);
PyObject *tg_py_gradients(const tg_py_pass *p, const tg_model *model);

#endif
