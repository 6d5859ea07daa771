#define _GNU_SOURCE
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/zip.h"

static tg_status system_error(tg_error *err, const char *what) {
    int saved = errno;
    tg_fail(err, TG_E_IO, "%s", what);
    if (err != NULL) err->sys_errno = saved;
    return TG_E_IO;
}

/* O_NONBLOCK: opening a named pipe must not wait for a writer. */
tg_status tg_file_open(const char *path, const char *expected, tg_source *source, tg_error *err) {
    struct stat st;
    *source = (tg_source){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (source->fd < 0) return system_error(err, "cannot open");
    tg_status status = TG_OK;
    if (fstat(source->fd, &st) != 0) status = system_error(err, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = tg_bad_field(err, "file", expected, "give the path of one file",
                              S_ISDIR(st.st_mode) ? "a directory" : "something else");
    else source->size = (int64_t)st.st_size;
    if (status != TG_OK) tg_file_close(source);
    return status;
}

void tg_file_close(tg_source *source) {
    if (source->fd >= 0) close(source->fd);
    source->fd = -1;
}
