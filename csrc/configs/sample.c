#include "configs/sample.h"

#include <stdlib.h>
#include <string.h>

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

static tg_status cancelled(tg_error *err) { return tg_fail(err, TG_E_CANCELLED, "cancelled"); }

/* Whether work on many rows is to stop, asked at every 65536th. */
static int stops(int64_t i, tg_cancel *cancel) { return (i & 0xffff) == 0xffff && tg_cancelled(cancel); }

/* Blocks that the C library sorts at once, merged by twos; spare (k,). 0 if it was told to stop. */
static int sort_rows(int64_t *rows, int64_t *spare, int64_t k, tg_cancel *cancel) {
    const int64_t block = 1 << 16;
    int64_t *from = rows, *to = spare;
    for (int64_t at = 0; at < k; at += block) {
        qsort(rows + at, (size_t)(k - at < block ? k - at : block), sizeof *rows, ascending);
        if (tg_cancelled(cancel)) return 0;
    }
    for (int64_t width = block; width < k; width *= 2) {
        for (int64_t at = 0; at < k; at += 2 * width) {
            const int64_t middle = at + width < k ? at + width : k,
                          end = middle + width < k ? middle + width : k;
            for (int64_t i = at, a = at, b = middle; i < end; i++) {
                to[i] = b == end || (a < middle && from[a] < from[b]) ? from[a++] : from[b++];
                if (stops(i, cancel)) return 0;
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != rows) memcpy(rows, from, (size_t)k * sizeof *rows);
    return 1;
}

/* out (k,): a random set of them, in no random order. 0 if it was told to stop. */
static int draw_set(int64_t *out, int64_t n, int64_t k, uint64_t key, const set *seen, tg_cancel *cancel) {
    for (int64_t i = 0; i < k; i++) { /* Floyd's algorithm (Bentley, Floyd 1987) */
        int64_t top = n - k + i;
        int64_t value = (int64_t)tg_below(key, (uint64_t)i, (uint64_t)top + 1);
        int64_t *slot = set_find(seen, value);
        if (*slot != 0) slot = set_find(seen, value = top);
        *slot = value + 1;
        out[i] = value;
        if (stops(i, cancel)) return 0;
    }
    return 1;
}

static int shuffle(int64_t *out, int64_t k, uint64_t key, tg_cancel *cancel) {
    for (int64_t i = k - 1; i > 0; i--) {
        int64_t j = (int64_t)tg_below(key, (uint64_t)i, (uint64_t)i + 1), swap = out[i];
        out[i] = out[j];
        out[j] = swap;
        if (stops(i, cancel)) return 0;
    }
    return 1;
}

tg_status tg_sample(int64_t *out, int64_t n, int64_t k, uint64_t key, int sorted, tg_cancel *cancel,
                    tg_error *err) {
    if (check(n, k, err) != TG_OK) return TG_E_CONFIG;
    set seen;
    if (!set_make(&seen, k)) return no_memory(k, err);
    int done = draw_set(out, n, k, key, &seen, cancel);
    if (done && sorted) done = sort_rows(out, seen.slot, k, cancel); /* which has room for 2 k */
    free(seen.slot);
    if (done && !sorted) done = shuffle(out, k, tg_key(key, 1), cancel);
    return done ? TG_OK : cancelled(err);
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

/* rows (k,): those of an epoch at `first` and behind. */
static tg_status walk(int64_t *rows, int64_t first, int64_t n, int64_t k, uint64_t key, tg_cancel *cancel,
                      tg_error *err) {
    for (int64_t i = 0; i < k; i++) {
        rows[i] = tg_permute(first + i, n, key);
        if (stops(i, cancel)) return cancelled(err);
    }
    return TG_OK;
}

/* head (k,): the first k rows of an epoch with those put off that the set has. late (k,) is scratch. */
static tg_status put_off(int64_t *head, int64_t *late, const set *tail, int64_t k, tg_cancel *cancel,
                         tg_error *err) {
    int64_t used = 0, later = 0;
    for (int64_t i = 0; i < k; i++) {
        if (*set_find(tail, head[i]) != 0) late[later++] = head[i];
        else head[used++] = head[i];
        if (stops(i, cancel)) return cancelled(err);
    }
    memcpy(head + used, late, (size_t)later * sizeof *late);
    return TG_OK;
}

/* head (k,): the first k rows of `epoch` in the order in which they are used: those of the last t rows of the
   epoch before (which share a step with this one's first k - t) are put off. */
static tg_status epoch_head(int64_t *head, int64_t n, int64_t k, uint64_t key, int64_t epoch,
                            tg_cancel *cancel, tg_error *err) {
    const int64_t t = (int64_t)((__int128)epoch * n % k);
    tg_status status = walk(head, 0, n, k, tg_key(key, (uint64_t)epoch), cancel, err);
    if (t == 0 || status != TG_OK) return status;
    set tail = {NULL, 0};
    int64_t *late = malloc((size_t)k * sizeof *late);
    if (late == NULL || !set_make(&tail, t)) status = no_memory(k, err);
    if (status == TG_OK) status = walk(late, n - t, n, t, tg_key(key, (uint64_t)epoch - 1), cancel, err);
    for (int64_t i = 0; i < t && status == TG_OK; i++) {
        *set_find(&tail, late[i]) = late[i] + 1;
        if (stops(i, cancel)) status = cancelled(err);
    }
    if (status == TG_OK) status = put_off(head, late, &tail, k, cancel, err);
    free(late);
    free(tail.slot);
    return status;
}

tg_status tg_sample_epoch(int64_t *out, int64_t n, int64_t k, uint64_t key, int64_t step, tg_cancel *cancel,
                          tg_error *err) {
    if (check(n, k, err) != TG_OK) return TG_E_CONFIG;
    if (step < 0) return tg_fail(err, TG_E_CONFIG, "step: expected at least 0, got %lld", (long long)step);
    if (k == 0) return TG_OK;
    if (n < 2 * k) return walk(out, 0, n, k, tg_key(key, (uint64_t)step), cancel, err);
    __int128 start = (__int128)step * k;
    int64_t epoch = (int64_t)(start / n), at = (int64_t)(start % n), done = 0;
    int64_t *head = malloc((size_t)k * sizeof *head);
    if (head == NULL) return no_memory(k, err);
    tg_status status = TG_OK;
    for (; done < k && status == TG_OK; epoch++, at = 0) { /* one epoch, or two */
        if (at < k) status = epoch_head(head, n, k, key, epoch, cancel, err);
        for (; status == TG_OK && done < k && at < k; at++) out[done++] = head[at];
        const int64_t rest = k - done < n - at ? k - done : n - at;
        if (status != TG_OK || rest <= 0) continue;
        status = walk(out + done, at, n, rest, tg_key(key, (uint64_t)epoch), cancel, err);
        done += rest;
    }
    free(head);
    return status;
}
