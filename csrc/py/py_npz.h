/* Arrays of .npz files as NumPy's. */
#ifndef TG_PY_NPZ_H
#define TG_PY_NPZ_H

#include "io/npz.h"
#include "py/pycore.h"

/* A new read-only array of a member; NULL with an exception, or without one and `err` set. */
PyArrayObject *tg_npz_array(tg_npz *npz, const tg_member *member, const tg_npy *npy, tg_error *err);

#endif
