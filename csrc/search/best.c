#include "search/best.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/extent.h"

tg_status tg_best_new(tg_best *b, int64_t P, int64_t room, tg_error *err) {
    const int64_t shape[2] = {room, P}, bytes = tg_extent(shape, 2, sizeof *b->code);
    *b = (tg_best){.P = P, .room = room};
    b->score = malloc((size_t)room * sizeof *b->score);
    b->number = malloc((size_t)room * sizeof *b->number);
    b->code = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
    if (b->score == NULL || b->number == NULL || b->code == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for the best %lld codes", (long long)room);
    return TG_OK;
}

void tg_best_free(tg_best *b) {
    free(b->score);
    free(b->number);
    free(b->code);
    *b = (tg_best){.P = 0};
}

static int worse(const tg_best *b, int64_t i, int64_t j) {
    return b->score[i] > b->score[j] || (b->score[i] == b->score[j] && b->number[i] > b->number[j]);
}

static void exchange(tg_best *b, int64_t i, int64_t j) {
    const double score = b->score[i];
    const int64_t number = b->number[i];
    b->score[i] = b->score[j], b->score[j] = score;
    b->number[i] = b->number[j], b->number[j] = number;
    for (int64_t p = 0; p < b->P; p++) {
        const int32_t value = b->code[i * b->P + p];
        b->code[i * b->P + p] = b->code[j * b->P + p];
        b->code[j * b->P + p] = value;
    }
}

static void sink(tg_best *b) {
    for (int64_t i = 0, child; (child = 2 * i + 1) < b->count; i = child) {
        if (child + 1 < b->count && worse(b, child + 1, child)) child++;
        if (!worse(b, child, i)) return;
        exchange(b, i, child);
    }
}

static void rise(tg_best *b) {
    for (int64_t i = b->count - 1; i > 0 && worse(b, i, (i - 1) / 2); i = (i - 1) / 2)
        exchange(b, i, (i - 1) / 2);
}

void tg_best_put(tg_best *b, const int32_t *code, double score) {
    const int64_t number = b->put++;
    if (!isfinite(score)) return;
    const int full = b->count == b->room;
    if (full && score >= b->score[0]) return;
    const int64_t at = full ? 0 : b->count++;
    b->score[at] = score, b->number[at] = number;
    memcpy(b->code + at * b->P, code, (size_t)b->P * sizeof *code);
    if (full) sink(b);
    else rise(b);
}

typedef struct ranked {
    double score;
    int64_t number, row;
} ranked;

static int by_rank(const void *one, const void *other) {
    const ranked *a = one, *b = other;
    if (a->score != b->score) return a->score < b->score ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int far_from(const tg_best *b, int64_t row, const int64_t *rows, int64_t n, int64_t differ) {
    for (int64_t i = 0; i < n; i++) {
        int64_t different = 0;
        for (int64_t p = 0; p < b->P; p++)
            different += b->code[row * b->P + p] != b->code[rows[i] * b->P + p];
        if (different < differ) return 0;
    }
    return 1;
}

tg_status tg_best_take(const tg_best *b, int64_t k, int64_t differ, int64_t *rows, int64_t *found,
                       tg_error *err) {
    ranked *order = malloc((size_t)b->count * sizeof *order + 1);
    *found = 0;
    if (order == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the order of the best codes");
    for (int64_t i = 0; i < b->count; i++) order[i] = (ranked){b->score[i], b->number[i], i};
    qsort(order, (size_t)b->count, sizeof *order, by_rank);
    for (int64_t i = 0; i < b->count && *found < k; i++)
        if (far_from(b, order[i].row, rows, *found, differ)) rows[(*found)++] = order[i].row;
    free(order);
    return TG_OK;
}
