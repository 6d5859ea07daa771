#include "base/pace.h"

#include <stddef.h>

#include "base/check.h"

static const double SMALLEST = 1 << 20; /* operations; smaller passes start no threads at all */
enum {
    TRIAL = 4, /* passes; the first is not counted, for its threads have to wake */
    SOON = 32,
    LATE = 1024, /* 4 trial passes of twice the time in a thousand are half a per cent */
};

tg_pace *tg_pace_of(tg_pace *paces, double work) {
    if (!(work >= SMALLEST)) return NULL;
    int size = 0;
    for (double most = 2 * SMALLEST; work >= most; most *= 2)
        if (++size == TG_PACES) return NULL;
    return &paces[size];
}

int tg_pace_next(const tg_pace *pace) { return pace->trial > 0 ? !pace->way : pace->way; }

static void start_trial(tg_pace *pace) {
    pace->trial = TRIAL;
    pace->seconds[!pace->way] = 0;
}

/* The other way has been tried: take it if it is clearly faster, else wait for longer. */
static void end_trial(tg_pace *pace) {
    if (pace->seconds[!pace->way] < 0.95 * pace->seconds[pace->way]) {
        pace->way = !pace->way;
        pace->wait = SOON;
    } else {
        pace->wait = 2 * pace->wait > LATE ? LATE : 2 * pace->wait;
    }
    pace->left = pace->wait;
}

void tg_pace_note(tg_pace *pace, double seconds) {
    TG_ASSERT(seconds >= 0);
    const int way = tg_pace_next(pace), known = pace->seconds[way] > 0;
    double *mean = &pace->seconds[way];
    if (pace->wait == 0) pace->wait = pace->left = SOON;
    if (pace->trial == TRIAL) {
        pace->trial--;
        return;
    }
    pace->slow = known && pace->trial == 0 && seconds > 1.5 * *mean ? pace->slow + 1 : 0;
    if (known && seconds > 4 * *mean) seconds = 4 * *mean; /* one pass that was put to sleep says little */
    *mean = known ? *mean + (seconds - *mean) / 4 : seconds;
    if (pace->trial > 0) {
        if (--pace->trial == 0) end_trial(pace);
        return;
    }
    if (pace->slow == 2) { /* something has changed */
        pace->wait = SOON;
        pace->left = 1;
        pace->slow = 0;
    }
    if (--pace->left <= 0) start_trial(pace);
}
