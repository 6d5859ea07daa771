#include "base/cancel.h"

#include <stddef.h>
#include <time.h>

int tg_cancelled(tg_cancel *cancel) {
    if (cancel == NULL || cancel->poll == NULL) return 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (seconds < cancel->next) return 0;
    cancel->next = seconds + 0.05;
    return cancel->poll(cancel->context);
}
