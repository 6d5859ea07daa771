#include "base/check.h"

#ifdef TG_CHECKED

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

static const uint32_t CANARY = 0x7fa55aa5; /* a NaN that no arithmetic makes */

void tg_check_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
    abort();
}

void tg_unpoison(float *place, int64_t floats) {
    ASAN_UNPOISON_MEMORY_REGION(place, (size_t)floats * sizeof *place);
}

void tg_redzone_open(float *place, int64_t floats) {
    tg_unpoison(place, floats + TG_REDZONE);
    for (int64_t i = 0; i < floats; i++) place[i] = NAN;
    for (int i = 0; i < TG_REDZONE; i++) memcpy(place + floats + i, &CANARY, sizeof CANARY);
    ASAN_POISON_MEMORY_REGION(place + floats, TG_REDZONE * sizeof *place);
}

void tg_redzone_close(const char *what, float *place, int64_t floats) {
    tg_unpoison(place + floats, TG_REDZONE);
    for (int i = 0; i < TG_REDZONE; i++)
        if (memcmp(place + floats + i, &CANARY, sizeof CANARY) != 0) {
            fprintf(stderr, "%s: float %lld behind its end was overwritten\n", what, (long long)i);
            abort();
        }
}

#endif
