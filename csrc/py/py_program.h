/* From a list of dicts to a program of preprocessing, and the table of steps as Python values. */
#ifndef TG_PY_PROGRAM_H
#define TG_PY_PROGRAM_H

#include "py/pycore.h"

#include "prepare/program.h"

/* Fill an empty program with a list of dicts {"step": name, attribute: value, ...} and close it; 0, or -1 with a
   ConfigError. */
int tg_py_program(PyObject *list, tg_program *program);

/* Metadata of all steps: a list of dicts. */
PyObject *tg_py_step_table(void);

#endif
