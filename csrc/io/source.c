#define _GNU_SOURCE
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: opening a named pipe must not wait for a writer. */
tg_status tg_source_open(const char *path, const char *expected, tg_source *source, tg_stamp *stamp,
                         tg_error *err) {
    struct stat st;
    *source = (tg_source){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (source->fd < 0) return tg_fail_errno(err, "cannot open");
    tg_status status = TG_OK;
    if (fstat(source->fd, &st) != 0) status = tg_fail_errno(err, "cannot stat");
    else if (!S_ISREG(st.st_mode))
        status = tg_bad_field(err, "file", expected, "give the path of one file",
                              S_ISDIR(st.st_mode) ? "a directory" : "something else");
    if (status != TG_OK) {
        tg_source_close(source);
        return status;
    }
    source->size = (int64_t)st.st_size;
    if (stamp != NULL)
        *stamp = (tg_stamp){(long long)st.st_dev, (long long)st.st_ino, (long long)st.st_size,
                            (long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    return TG_OK;
}

tg_status tg_source_map(tg_source *source, tg_error *err) {
    void *bytes = mmap(NULL, (size_t)source->size, PROT_READ, MAP_SHARED, source->fd, 0);
    if (bytes == MAP_FAILED) return tg_fail_errno(err, "cannot map into memory");
    close(source->fd);
    source->fd = -1;
    source->bytes = bytes;
    return TG_OK;
}

void tg_source_close(tg_source *source) {
    if (source->fd >= 0) close(source->fd);
    if (source->bytes != NULL) munmap((void *)(uintptr_t)source->bytes, (size_t)source->size);
    *source = (tg_source){.fd = -1};
}

void tg_source_release(const tg_source *source) {
    madvise((void *)(uintptr_t)source->bytes, (size_t)source->size, MADV_DONTNEED);
}

void tg_source_release_part(const tg_source *source, int64_t from, int64_t to) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to) madvise((void *)(uintptr_t)(source->bytes + from), (size_t)(to - from), MADV_DONTNEED);
}

tg_status tg_source_read(const tg_source *source, int64_t offset, void *to, size_t n, tg_error *err) {
    if (offset < 0 || offset > source->size || (uint64_t)(source->size - offset) < n)
        return tg_fail(err, TG_E_DATA,
                       "the file ends too early: it is damaged or was cut off; download or copy it again");
    if (source->bytes != NULL) {
        memcpy(to, source->bytes + offset, n);
        return TG_OK;
    }
    for (size_t got = 0; got < n;) {
        ssize_t some = pread(source->fd, (char *)to + got, n - got, (off_t)(offset + (int64_t)got));
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return tg_fail_errno(err, "cannot read");
        if (some == 0) return tg_fail(err, TG_E_DATA, "the file became shorter while it was read");
        got += (size_t)some;
    }
    return TG_OK;
}
