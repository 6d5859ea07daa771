/* A regular file, opened to be read through a tg_source. */
#ifndef TG_FILE_H
#define TG_FILE_H

#include "data/inflate.h"

/* Open `path` into `*source`, whose fd is -1 after an error; TG_E_IO with errno, or TG_E_DATA when it is not a regular
   file ("file: expected `expected`, found a directory"). */
tg_status tg_file_open(const char *path, const char *expected, tg_source *source, tg_error *err);
void tg_file_close(tg_source *source);

#endif
