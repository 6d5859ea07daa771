/* An open .npz, for the files of py/ that read one. */
#ifndef TG_PY_NPZ_H
#define TG_PY_NPZ_H

#include "io/npz.h"
#include "py/pycore.h"

/* With what identifies the file, to notice later that it was replaced. */
typedef struct tg_opened {
    tg_npz npz;
    tg_cancel cancel;
    int fd;
    long long stamp[4]; /* device, inode, size, time of change in ns */
} tg_opened;

/* TG_E_IO with the errno of the call that has just failed. */
tg_status tg_system_error(tg_error *err, const char *what);

/* Open a regular file for reading; `what` it should be. `*fd` is to be closed, if it is not negative, also after an
   error. None of these needs the GIL. */
tg_status tg_open_regular(int *fd, long long *stamp, const char *path, const char *what, tg_error *err);

/* Open `path`. Set `cancel` and fd = -1 before; close also after an error. */
tg_status tg_open_npz(tg_opened *o, const char *path, tg_error *err);
void tg_close_npz(tg_opened *o);

/* The same, and find the configs of shape (3), in a file with this stamp (4). */
tg_status tg_find_digits(tg_opened *o, const char *path, const long long *stamp, const long long *shape,
                         const tg_member **member, tg_npy *npy, tg_error *err);

#endif
