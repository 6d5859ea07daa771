#include "rank/ratio.h"

#include <stdlib.h>

typedef struct ratio {
    int64_t y, d, index;
} ratio;

/* Sign of a.y / a.d - b.y / b.d: the products have at most 126 bits. */
static int compare(const ratio *a, const ratio *b) {
    const __int128 left = (__int128)a->y * b->d, right = (__int128)b->y * a->d;
    return (left > right) - (left < right);
}

static int by_ratio(const void *a, const void *b) { return compare(a, b); }

tg_status tg_ratio_ranks(int64_t n, const int64_t *y, const int64_t *d, int64_t *ranks, tg_error *err) {
    for (int64_t i = 0; i < n; i++)
        if (d[i] <= 0)
            return tg_fail_field(err, "normalizers", "numbers above 0", "%lld at place %lld", (long long)d[i],
                                 (long long)i);
    ratio *items = malloc((size_t)(n + 1) * sizeof *items);
    if (items == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld runtimes", (long long)n);
    for (int64_t i = 0; i < n; i++) items[i] = (ratio){y[i], d[i], i};
    qsort(items, (size_t)n, sizeof *items, by_ratio);
    for (int64_t p = 0, rank = 0; p < n; p++) {
        rank += p == 0 || compare(&items[p - 1], &items[p]) != 0;
        ranks[items[p].index] = rank;
    }
    free(items);
    return TG_OK;
}
