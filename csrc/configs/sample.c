#include "configs/sample.h"

#include <stdlib.h>

#include "base/rng.h"

/* A set of integers >= 0: open addressing, at most half full. */
typedef struct set {
    int64_t *slot; /* (mask + 1): value + 1, 0 = free */
    uint64_t mask;
} set;

static int set_make(set *s, int64_t items) {
    uint64_t size = 16;
    while (size < 2 * (uint64_t)items) size *= 2;
    *s = (set){calloc(size, sizeof *s->slot), size - 1};
    return s->slot != NULL;
}

/* Where `value` is, or the free slot where it belongs. */
static int64_t *set_find(const set *s, int64_t value) {
    uint64_t at = tg_mix64((uint64_t)value) & s->mask;
    while (s->slot[at] != 0 && s->slot[at] != value + 1) at = (at + 1) & s->mask;
    return &s->slot[at];
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static tg_status check(int64_t n, int64_t k, tg_error *err) {
    if (n < 0 || k < 0 || k > n || n > INT64_MAX / 4)
        return tg_fail(err, TG_E_CONFIG,
                       "cannot draw k = %lld distinct rows out of n = %lld: 0 <= k <= n is needed",
                       (long long)k, (long long)n);
    return TG_OK;
}

static tg_status no_memory(int64_t k, tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory for a sample of %lld rows", (long long)k);
}

tg_status tg_sample(int64_t *out, int64_t n, int64_t k, uint64_t key, int sorted, tg_error *err) {
    if (check(n, k, err) != TG_OK) return TG_E_CONFIG;
    set seen;
    if (!set_make(&seen, k)) return no_memory(k, err);
    for (int64_t i = 0; i < k; i++) { /* Floyd's algorithm (Bentley, Floyd 1987) */
        int64_t top = n - k + i;
        int64_t value = (int64_t)tg_below(key, (uint64_t)i, (uint64_t)top + 1);
        int64_t *slot = set_find(&seen, value);
        if (*slot != 0) slot = set_find(&seen, value = top);
        *slot = value + 1;
        out[i] = value;
    }
    free(seen.slot);
    if (sorted) {
        if (k > 1) qsort(out, (size_t)k, sizeof *out, ascending);
        return TG_OK;
    }
    uint64_t shuffle = tg_key(key, 1); /* Floyd's order is not random: the set is */
    for (int64_t i = k - 1; i > 0; i--) {
        int64_t j = (int64_t)tg_below(shuffle, (uint64_t)i, (uint64_t)i + 1), swap = out[i];
        out[i] = out[j];
        out[j] = swap;
    }
    return TG_OK;
}

/* A Feistel network over the least square power of two that holds n, walked until it lands inside. */
int64_t tg_permute(int64_t i, int64_t n, uint64_t key) {
    int half = 1;
    while (half < 31 && (INT64_C(1) << (2 * half)) < n) half++;
    uint64_t mask = (UINT64_C(1) << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint64_t next = left ^ (tg_draw(tg_key(key, round), right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* head (k,): the first k rows of `epoch` in the order in which they are used: those of the last t rows of the
   epoch before (which share a step with this one's first k - t) are put off. */
static tg_status epoch_head(int64_t *head, int64_t n, int64_t k, uint64_t key, int64_t epoch, tg_error *err) {
    int64_t t = (int64_t)((__int128)epoch * n % k);
    uint64_t here = tg_key(key, (uint64_t)epoch), before = tg_key(key, (uint64_t)epoch - 1);
    if (t == 0) {
        for (int64_t i = 0; i < k; i++) head[i] = tg_permute(i, n, here);
        return TG_OK;
    }
    set tail;
    int64_t *late = malloc((size_t)k * sizeof *late);
    if (late == NULL || !set_make(&tail, t)) {
        free(late);
        return no_memory(k, err);
    }
    for (int64_t i = n - t; i < n; i++) {
        int64_t row = tg_permute(i, n, before);
        *set_find(&tail, row) = row + 1;
    }
    int64_t used = 0, put_off = 0;
    for (int64_t i = 0; i < k; i++) {
        int64_t row = tg_permute(i, n, here);
        if (*set_find(&tail, row) != 0) late[put_off++] = row;
        else head[used++] = row;
    }
    for (int64_t i = 0; i < put_off; i++) head[used + i] = late[i];
    free(late);
    free(tail.slot);
    return TG_OK;
}

tg_status tg_sample_epoch(int64_t *out, int64_t n, int64_t k, uint64_t key, int64_t step, tg_error *err) {
    if (check(n, k, err) != TG_OK) return TG_E_CONFIG;
    if (step < 0) return tg_fail(err, TG_E_CONFIG, "step: expected at least 0, got %lld", (long long)step);
    if (k == 0) return TG_OK;
    if (n < 2 * k) {
        uint64_t here = tg_key(key, (uint64_t)step);
        for (int64_t i = 0; i < k; i++) out[i] = tg_permute(i, n, here);
        return TG_OK;
    }
    __int128 start = (__int128)step * k;
    int64_t epoch = (int64_t)(start / n), at = (int64_t)(start % n), done = 0;
    int64_t *head = malloc((size_t)k * sizeof *head);
    if (head == NULL) return no_memory(k, err);
    tg_status status = TG_OK;
    while (done < k && status == TG_OK) { /* one epoch, or two */
        if (at < k) status = epoch_head(head, n, k, key, epoch, err);
        uint64_t here = tg_key(key, (uint64_t)epoch);
        for (; status == TG_OK && done < k && at < n; at++)
            out[done++] = at < k ? head[at] : tg_permute(at, n, here);
        epoch++;
        at = 0;
    }
    free(head);
    return status;
}
