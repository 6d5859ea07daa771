#include "base/check.h"

#ifdef TG_CHECKED

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum { CANARY = 0xa5 };

void tg_check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
    abort();
}

void tg_unpoison(void *place, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(place, bytes); }

void tg_redzone_open(void *place, size_t bytes) {
    char *end = (char *)place + bytes;
    tg_unpoison(place, bytes + TG_REDZONE_BYTES);
    memset(place, 0xff, bytes);
    memset(end, CANARY, TG_REDZONE_BYTES);
    ASAN_POISON_MEMORY_REGION(end, TG_REDZONE_BYTES);
}

void tg_redzone_close(const char *what, void *place, size_t bytes) {
    const unsigned char *end = (unsigned char *)place + bytes;
    tg_unpoison((char *)place + bytes, TG_REDZONE_BYTES);
    for (int i = 0; i < TG_REDZONE_BYTES; i++)
        if (end[i] != CANARY) {
            fprintf(stderr, "%s: byte %d behind its end was overwritten\n", what, i);
            abort();
        }
}

#endif
