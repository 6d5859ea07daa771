/* Open packs, as capsules. */
#ifndef TG_PY_PACK_H
#define TG_PY_PACK_H

#include "py/pycore.h"

/* Compare the configs, which pack_check(handle, False) leaves out, with their checksum, once. 0, or -1 with an
   exception that names the file. */
int tg_pack_configs(PyObject *handle);

/* Free the memory of pages that were read. None, or NULL with an exception. */
PyObject *tg_pack_let_go(PyObject *handle);

#endif
