/* Passes whose times are given: lines of "seconds on all threads, seconds on one". Prints the way that each took. */
#include <stdio.h>

#include "base/pace.h"

int main(void) {
    tg_pace paces[TG_PACES] = {0}, *pace = tg_pace_of(paces, 1 << 24);
    double seconds[TG_WAYS];
    if (pace == NULL || tg_pace_of(paces, 1e5) != NULL || tg_pace_of(paces, 1e12) != NULL) return 1;
    while (scanf("%lf %lf", &seconds[TG_ALL_THREADS], &seconds[TG_ONE_THREAD]) == 2) {
        const int way = tg_pace_next(pace);
        printf("%d\n", way);
        tg_pace_note(pace, seconds[way]);
    }
    return 0;
}
