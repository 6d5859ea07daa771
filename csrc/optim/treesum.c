#include "optim/treesum.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

static void add(int64_t n, const float *from, float *to) {
#pragma omp parallel for simd num_threads(tg_threads((double)n)) schedule(static)
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Append a subtree, and merge the last ones while both children of a vector are there; `vector` NULL: count only. A subtree
   without a right sibling is its parent. */
static void push(const tg_tree_sum *s, tg_subtrees *t, tg_subtree next, const float *vector) {
    t->vector[t->n] = vector;
    for (t->at[t->n++] = next; next.level + 1 < s->levels; t->at[t->n - 1] = next) {
        const tg_subtree *left = t->n > 1 ? &t->at[t->n - 2] : NULL;
        if (next.place % 2 == 0) {
            if ((int64_t)(next.place + 1) << next.level < s->units) return;
        } else {
            if (left == NULL || left->level != next.level || left->place != next.place - 1) return;
            t->n--;
            if (vector != NULL) add(s->length, t->vector[t->n], (float *)t->vector[t->n - 1]);
        }
        next = (tg_subtree){next.level + 1, next.place / 2};
    }
}

static int first_unit(const tg_tree_sum *s, int rank) { return rank == 0 ? 0 : s->ends[rank - 1]; }

/* The roots of a rank's subtrees, and the most that it holds at a time. */
static tg_subtrees roots_of(const tg_tree_sum *s, int rank, int *most) {
    tg_subtrees t = {.n = 0};
    *most = 0;
    for (int i = first_unit(s, rank); i < s->ends[rank]; i++) {
        push(s, &t, (tg_subtree){0, i}, NULL);
        *most = t.n > *most ? t.n : *most;
    }
    return t;
}

tg_status tg_tree_sum_init(tg_tree_sum *s, int64_t length, int size, const int *ends, int rank,
                           tg_error *err) {
    *s = (tg_tree_sum){.units = ends[size - 1], .levels = 1, .rank = rank, .size = size, .length = length};
    while ((int64_t)1 << (s->levels - 1) < s->units) s->levels++;
    s->ends = malloc((size_t)size * sizeof *s->ends);
    s->sizes = malloc((size_t)size * sizeof *s->sizes);
    size_t bytes = 0, all = 0;
    int most = 0;
    if (s->ends == NULL || s->sizes == NULL || __builtin_mul_overflow((size_t)length, sizeof(float), &bytes))
        goto no_memory;
    memcpy(s->ends, ends, (size_t)size * sizeof *s->ends);
    for (int r = 0; r < size; r++) {
        int held;
        const tg_subtrees t = roots_of(s, r, &held);
        if (__builtin_mul_overflow(bytes, (size_t)t.n, &s->sizes[r]) ||
            __builtin_add_overflow(all, s->sizes[r], &all))
            goto no_memory;
        if (r == rank) most = held;
    }
    size_t own;
    if (__builtin_mul_overflow(bytes, (size_t)most, &own)) goto no_memory;
    s->memory = malloc(own + 1);
    s->received = malloc(size > 1 ? all + 1 : 1);
    if (s->memory == NULL || s->received == NULL) goto no_memory;
    tg_tree_sum_clear(s);
    return TG_OK;
no_memory:
    return tg_fail(err, TG_E_MEMORY, "no memory for the sum of %d vectors of length %lld", s->units,
                   (long long)length);
}

void tg_tree_sum_free(tg_tree_sum *s) {
    free(s->ends);
    free(s->sizes);
    free(s->memory);
    free(s->received);
    *s = (tg_tree_sum){0};
}

void tg_tree_sum_clear(tg_tree_sum *s) {
    s->next = first_unit(s, s->rank);
    s->own.n = 0;
}

void tg_tree_sum_add(tg_tree_sum *s, const float *vector) {
    push(s, &s->own, (tg_subtree){0, s->next++}, vector);
    const float **last = &s->own.vector[s->own.n - 1];
    if (*last != vector) return; /* was added to one that is held */
    float *copy = s->memory + (s->own.n - 1) * s->length;
    memcpy(copy, vector, (size_t)s->length * sizeof(float));
    *last = copy;
}

tg_status tg_tree_sum_total(tg_tree_sum *s, const tg_comm *comm, float *total, tg_error *err) {
    TG_ASSERT(s->next == s->ends[s->rank] && comm->rank == s->rank && comm->size == s->size);
    tg_subtrees t = s->own;
    if (s->size > 1) {
        const tg_status status = comm->allgather(comm->context, s->memory, s->sizes, s->received, err);
        if (status != TG_OK) return status;
        const float *vector = s->received;
        t.n = 0;
        for (int r = 0, most; r < s->size; r++) {
            const tg_subtrees theirs = roots_of(s, r, &most);
            for (int i = 0; i < theirs.n; i++, vector += s->length) push(s, &t, theirs.at[i], vector);
        }
    }
    TG_ASSERT(t.n == 1);
    memcpy(total, t.vector[0], (size_t)s->length * sizeof(float));
    return TG_OK;
}

/* ---- which unit goes where ---- */

typedef struct job {
    int64_t work, unit;
} job;

static int most_work_first(const void *a, const void *b) {
    const job *one = a, *other = b;
    if (one->work != other->work) return one->work < other->work ? 1 : -1;
    return one->unit < other->unit ? -1 : 1;
}

/* Divide jobs(n), of which the one with most work comes first, between the children of a vector, and go on below. */
static void divide(job *jobs, int n, job *scratch) {
    if (n < 2) return;
    int room = 1, left = 0, right = 0; /* room: leaves below the left child */
    while (2 * room < n) room *= 2;
    int64_t sums[2] = {0, 0};
    for (int i = 0; i < n; i++) {
        const int goes_right = left == room || (sums[1] < sums[0] && right < n - room);
        scratch[goes_right ? room + right++ : left++] = jobs[i];
        sums[goes_right] += jobs[i].work;
    }
    memcpy(jobs, scratch, (size_t)n * sizeof *jobs);
    divide(jobs, room, scratch);
    divide(jobs + room, n - room, scratch);
}

tg_status tg_tree_order(int n, const int64_t *work, int64_t *order, tg_error *err) {
    job *jobs = malloc(2 * ((size_t)n + 1) * sizeof *jobs);
    if (jobs == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for the order of %d units", n);
    for (int i = 0; i < n; i++) jobs[i] = (job){work[i], i};
    qsort(jobs, (size_t)n, sizeof *jobs, most_work_first);
    divide(jobs, n, jobs + n);
    for (int i = 0; i < n; i++) order[i] = jobs[i].unit;
    free(jobs);
    return TG_OK;
}
