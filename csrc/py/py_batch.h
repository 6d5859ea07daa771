/* A batch of slates, as Python gives it. */
#ifndef TG_PY_BATCH_H
#define TG_PY_BATCH_H

#include "py/py_prepared.h"

enum { TG_MOST_ROWS = 16777216 }; /* of a slate, 2^24 */

/* Made from a sequence of (Graph, rows), (Prepared, rows), (Prepared, rows, segment), and the same with (scale, shift) of
   the scores, or None, for recipe_lists in py_pass.c. */
typedef struct tg_py_batch {
    PyObject *items; /* tuple that keeps the pairs alive */
    PyObject *rows;  /* list that keeps alive what entries have instead of the rows that were given */
    tg_entry *entries;
    int n;
    int64_t total; /* configs in all */
} tg_py_batch;
int tg_py_batch_init(tg_py_batch *batch, const tg_state *state,
                     PyObject *slates); /* 0, or -1 with an exception */
void tg_py_batch_free(tg_py_batch *batch);

/* The prepared graph of slate i and which of its configs; NULL with an exception if it is a bare Graph. */
tg_py_prepared *tg_py_batch_prepared(const tg_py_batch *batch, const tg_state *state, int i,
                                     const int64_t **rows);

#endif
