/* The Python type _core.Prepared: a graph as a model takes it, with what was measured of its configs. */
#ifndef TG_PY_PREPARED_H
#define TG_PY_PREPARED_H

#include "py/py_model_graph.h"
#include "store/measured.h"

/* Arrays that follow from the measurements; each is made when it is first asked for. */
typedef enum {
    TG_MADE_ORDER,   /* (C,) int64: tg_measured_order */
    TG_MADE_ACROSS,  /* (C,) int64: tg_measured_across */
    TG_MADE_FASTEST, /* (C,) int64: tg_measured_fastest */
    TG_MADE_TIMES,   /* (C,) float64: tg_measured_times */
    TG_MADE_VALUES,  /* (C,) float64: tg_target_values of the first target; the others follow */
    TG_MADE = TG_MADE_VALUES + TG_TARGETS
} tg_made;

typedef struct tg_py_prepared {
    PyObject_HEAD PyObject *name;
    PyObject *nodes, *graph; /* the Graph, and itself again or None if its configs were left out */
    PyObject *cuts;          /* tuple of the Graphs of its segments; empty: it is not cut */
    PyObject *mapped;        /* what its configs stay in, such as a pack, or None */
    PyObject *measured, *normalizers, *kept, *weights, *valid; /* arrays (C,), or None */
    PyObject *made[TG_MADE];                                   /* NULL at first */
    int64_t C;                                                 /* configs, after equal ones were merged */
    int64_t bytes;                                             /* of memory, roughly */
} tg_py_prepared;

/* What one is made of, besides its nodes. Arrays (C,) may be NULL or None, and the bytes are those of the digits. */
typedef struct tg_made_of {
    PyObject *name, *measured, *normalizers, *kept, *weights, *valid, *mapped;
    int configs;      /* the nodes have them */
    int64_t segments; /* most nodes of one; 0: it is not cut */
    int64_t bytes;
} tg_made_of;

/* A new Prepared, or NULL with an exception. */
PyObject *tg_new_prepared(PyTypeObject *type, tg_py_model_graph *nodes, const tg_made_of *of);

int tg_add_prepared_type(PyObject *module);
int tg_add_store_type(PyObject *module);
int tg_add_visits_type(PyObject *module);
int tg_add_segments_type(PyObject *module);

/* One of the arrays, borrowed; NULL with an exception. */
PyArrayObject *tg_py_made(tg_py_prepared *self, tg_made which);

/* The graph of one segment (>= 0), or the whole one (-1); NULL with an exception. */
tg_py_model_graph *tg_py_part(tg_py_prepared *self, int64_t segment);

/* Rows of the graph's configs: `rows` themselves, or which of the distinct ones. A new reference. */
PyObject *tg_py_stored_rows(const tg_py_prepared *self, PyObject *rows);

/* The target of that name, -1 with an exception. */
int tg_py_target(const char *name);

#endif
