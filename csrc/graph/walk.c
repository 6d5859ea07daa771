#include "graph/walk.h"

#include "base/openmp.h"
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/parallel.h"
#include "graph/components.h"

/* Walks from this many nodes go side by side: their numbers for one node fill a cache line. Such lines are asked for
   that many entries before they are read: neighbours may be anywhere. */
enum { LANES = 8, AHEAD = 16 };

/* Where walks can come back to where they began: undirected anywhere, directed within a component only. */
typedef struct field {
    const tg_walk *walk;
    tg_csr next, back;  /* entries of A within reach, and the same transposed (undirected: next) */
    double *inverse;    /* (N): 1 / row sum of A; 0 without edges */
    double *home;       /* (N): P[v,v] */
    int32_t *component; /* (N), directed only */
} field;

/* Room of one thread. */
typedef struct room {
    double *x, *y; /* (N, LANES), all 0 between two blocks */
    int32_t *list; /* (N): nodes that a walk of the block can have reached */
    uint8_t *mark; /* (N): 1 for these */
} room;

static void field_free(field *f) {
    if (f->back.ptr != f->next.ptr) tg_csr_free(&f->back);
    tg_csr_free(&f->next);
    free(f->inverse);
    free(f->home);
    free(f->component);
}

/* Edges in both directions. */
static tg_status undirected(field *f, tg_error *err) {
    const tg_walk *w = f->walk;
    int64_t *both = malloc((size_t)(4 * w->E + 1) * sizeof *both);
    if (both == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for %lld edges", (long long)w->E);
    for (int64_t e = 0; e < w->E; e++) {
        both[4 * e] = both[4 * e + 3] = w->edges[2 * e];
        both[4 * e + 1] = both[4 * e + 2] = w->edges[2 * e + 1];
    }
    tg_status status = tg_csr_build(&f->next, (int32_t)w->N, (int32_t)(2 * w->E), both, 0, err);
    f->back = f->next;
    free(both);
    return status;
}

/* Keeps the entries within a component. Of the lists only what walks read is kept up: `ptr`, `idx` and E. */
static void within_components(tg_csr *csr, const int32_t *component) {
    int32_t at = 0, from = 0;
    for (int32_t n = 0; n < csr->N; n++) {
        const int32_t end = csr->ptr[n + 1];
        for (; from < end; from++) {
            const int32_t to = csr->idx[from];
            if (component[to] == component[n]) csr->idx[at++] = to;
        }
        csr->ptr[n + 1] = at;
    }
    csr->E = at;
}

static tg_status field_init(field *f, tg_error *err) {
    const tg_walk *w = f->walk;
    const int32_t N = (int32_t)w->N;
    f->inverse = malloc((size_t)(N + 1) * sizeof *f->inverse);
    f->home = malloc((size_t)(N + 1) * sizeof *f->home);
    if (f->inverse == NULL || f->home == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for walks over %d nodes", N);
    tg_status status = TG_OK;
    if (w->directed) {
        status = tg_csr_build(&f->next, N, (int32_t)w->E, w->edges, 1, err);
        if (status == TG_OK) status = tg_csr_build(&f->back, N, (int32_t)w->E, w->edges, 0, err);
    } else status = undirected(f, err);
    for (int32_t n = 0; status == TG_OK && n < N; n++) {
        int64_t sum = f->next.ptr[n + 1] - f->next.ptr[n] + w->loops, self = w->loops;
        for (int32_t i = f->next.ptr[n]; i < f->next.ptr[n + 1]; i++) self += f->next.idx[i] == n;
        f->inverse[n] = sum > 0 ? 1 / (double)sum : 0;
        f->home[n] = (double)self * f->inverse[n];
    }
    return status;
}

/* Afterwards the lists of a directed graph hold only what leads back; the rest was needed for the sums before. */
static tg_status restrict_directed(field *f, tg_error *err) {
    if ((f->component = malloc((size_t)(f->walk->N + 1) * sizeof *f->component)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for walks over %lld nodes", (long long)f->walk->N);
    tg_status status = tg_components(f->component, &f->next, err);
    if (status != TG_OK) return status;
    within_components(&f->next, f->component);
    within_components(&f->back, f->component);
    return TG_OK;
}

/* Whether the only way back to a node is its own loop. */
static int alone(const field *f, int64_t node) {
    for (int32_t i = f->next.ptr[node]; i < f->next.ptr[node + 1]; i++)
        if (f->next.idx[i] != node) return 0;
    return 1;
}

/* y = P x at one node. sums (2, LANES) += x y and y y, times the row sum of the node. */
static inline void step_node(const field *f, const room *r, int32_t node, double *restrict sums) {
    double y[LANES] = {0}, *x = r->x + (int64_t)node * LANES, *to = r->y + (int64_t)node * LANES;
    if (f->walk->loops) memcpy(y, x, sizeof y);
    for (int32_t j = f->next.ptr[node]; j < f->next.ptr[node + 1]; j++) {
        const double *from = r->x + (int64_t)f->next.idx[j] * LANES;
        const int32_t soon = j + AHEAD < f->next.E ? j + AHEAD : j; /* mostly of one of the next nodes */
        __builtin_prefetch(r->x + (int64_t)f->next.idx[soon] * LANES);
        for (int l = 0; l < LANES; l++) y[l] += from[l];
    }
    for (int l = 0; l < LANES; l++) { /* y is still the sum: the row sum times its mean */
        const double mean = y[l] * f->inverse[node];
        sums[l] += x[l] * y[l];
        sums[LANES + l] += mean * y[l];
        to[l] = mean;
    }
}

/* y = P x for the nodes of the list; x is 0 elsewhere. A long list is taken in the order of the nodes, which are near
   each other in memory then. sums (2, LANES): x D y and y D y, D the row sums. */
static void step(const field *f, const room *r, int32_t n_list, double *sums) {
    const int32_t N = f->next.N;
    double own[2 * LANES] = {0};
    if (n_list < N / 16)
        for (int32_t i = 0; i < n_list; i++) step_node(f, r, r->list[i], own);
    else
        for (int32_t node = 0; node < N; node++)
            if (r->mark[node]) step_node(f, r, node, own);
    memcpy(sums, own, sizeof own);
}

/* Append the nodes one step before those in list[from ..). */
static int32_t grow(const field *f, const room *r, int32_t from, int32_t n_list) {
    for (int32_t end = n_list; from < end; from++) {
        const int32_t node = r->list[from];
        for (int32_t j = f->back.ptr[node]; j < f->back.ptr[node + 1]; j++) {
            const int32_t before = f->back.idx[j];
            if (r->mark[before]) continue;
            r->mark[before] = 1;
            r->list[n_list++] = before;
        }
    }
    return n_list;
}

/* back (last + 2, LANES): chances after k = 1 .. last steps for the walks of nodes (lanes,). Undirected, D P is symmetric:
   P^(a+b)[v,v] is x D y / D[v,v] with x = P^a e_v, y = P^b e_v, so that half as many products do. */
static void block(const field *f, room *r, const int64_t *nodes, int lanes, double *back) {
    const int directed = f->walk->directed;
    int32_t from = 0, n_list = 0;
    for (int l = 0; l < lanes; l++) {
        r->x[nodes[l] * LANES + l] = 1;
        if (r->mark[nodes[l]]) continue;
        r->mark[nodes[l]] = 1;
        r->list[n_list++] = (int32_t)nodes[l];
    }
    for (int k = 1; k <= f->walk->last; k += directed ? 1 : 2) {
        double sums[2 * LANES];
        const int32_t more = grow(f, r, from, n_list);
        from = n_list;
        n_list = more;
        step(f, r, n_list, sums);
        for (int l = 0; l < lanes; l++) {
            const double each = f->inverse[nodes[l]];
            back[k * LANES + l] = directed ? r->y[nodes[l] * LANES + l] : sums[l] * each;
            if (!directed) back[(k + 1) * LANES + l] = sums[LANES + l] * each;
        }
        double *swap = r->x;
        r->x = r->y;
        r->y = swap;
    }
    for (int32_t i = 0; i < n_list; i++) {
        memset(r->x + (int64_t)r->list[i] * LANES, 0, LANES * sizeof *r->x);
        memset(r->y + (int64_t)r->list[i] * LANES, 0, LANES * sizeof *r->y);
        r->mark[r->list[i]] = 0;
    }
}

/* diagonal (n, last): (P^k)[v,v] of the nodes for k = 1 .. last. */
static tg_status diagonals(const field *f, const int64_t *nodes, int64_t n, double *diagonal, tg_error *err) {
    const tg_walk *w = f->walk;
    const int64_t N = w->N, blocks = (n + LANES - 1) / LANES;
    const int threads = tg_threads((double)blocks * w->last * (double)(w->N + w->E));
    const size_t one = (size_t)N * (2 * LANES * sizeof(double) + sizeof(int32_t) + 1) +
                       ((size_t)w->last + 3) * LANES * sizeof(double);
    const size_t each = (one + 63) & ~(size_t)63; /* of a thread */
    char *memory = calloc((size_t)threads, each);
    if (memory == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for walks over %lld nodes", (long long)N);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t b = 0; b < blocks; b++) {
        double *numbers = (double *)(memory + (size_t)omp_get_thread_num() * each);
        double *back = numbers + 2 * N * LANES;
        int32_t *list = (int32_t *)(back + ((int64_t)w->last + 3) * LANES);
        room r = {numbers, numbers + N * LANES, list, (uint8_t *)(list + N)};
        const int64_t start = b * LANES;
        const int lanes = n - start < LANES ? (int)(n - start) : LANES;
        block(f, &r, nodes + start, lanes, back);
        for (int l = 0; l < lanes; l++)
            for (int k = 1; k <= w->last; k++) diagonal[(start + l) * w->last + k - 1] = back[k * LANES + l];
    }
    free(memory);
    return TG_OK;
}

/* sums (last, N): column sums of P^k for k = 1 .. last. */
static void column_sums(const field *f, double *sums) {
    const tg_walk *w = f->walk;
    for (int k = 0; k < w->last; k++) {
        double *to = sums + (int64_t)k * w->N;
        const double *from = to - w->N;
        for (int64_t n = 0; n < w->N; n++) {
            double sum = w->loops ? (k == 0 ? 1 : from[n]) * f->inverse[n] : 0;
            for (int32_t i = f->back.ptr[n]; i < f->back.ptr[n + 1]; i++) {
                const int32_t u = f->back.idx[i];
                sum += (k == 0 ? 1 : from[u]) * f->inverse[u];
            }
            to[n] = sum;
        }
    }
}

/* What is asked for, from the diagonals (n, last) of `some` nodes (at their places `of`), closed forms of the others. */
static void write_rows(float *to, int64_t ld, const field *f, const int64_t *nodes, int64_t n,
                       const int32_t *of, const double *diagonal, const double *sums) {
    const tg_walk *w = f->walk;
    for (int64_t i = 0; i < n; i++) {
        const int64_t node = nodes == NULL ? i : nodes[i];
        double power = 1;
        if (node < 0) memset(to + i * ld, 0, (size_t)(w->last - w->first + 1) * sizeof *to);
        for (int k = 1; node >= 0 && k <= w->last; k++) {
            power *= f->home[node];
            double value = of[i] < 0 ? power : diagonal[(int64_t)of[i] * w->last + k - 1];
            if (w->arriving && k >= 2) value = sums[(int64_t)(k - 1) * w->N + node] - value;
            if (k >= w->first) to[i * ld + k - w->first] = (float)value;
        }
    }
}

tg_status tg_walk_encode(float *to, int64_t ld, const tg_walk *walk, const int64_t *nodes, int64_t n,
                         tg_error *err) {
    if (walk->N >= INT32_MAX || 2 * walk->E >= INT32_MAX)
        return tg_fail(err, TG_E_DATA, "walks: too large a graph: %lld nodes", (long long)walk->N);
    TG_ASSERT(walk->first >= 1 && walk->last >= walk->first && ld > walk->last - walk->first && n >= 0);
    TG_ASSERT(nodes != NULL || n <= walk->N);
    for (int64_t i = 0; nodes != NULL && i < n; i++) TG_ASSERT(nodes[i] >= -1 && nodes[i] < walk->N);
    field f = {.walk = walk};
    double *sums = NULL, *diagonal = NULL;
    int32_t *of = malloc((size_t)(n + 1) * sizeof *of);
    int64_t some = 0, *moving = malloc((size_t)(n + 1) * sizeof *moving);
    tg_status status = field_init(&f, err);
    if (status == TG_OK && walk->arriving) {
        if ((sums = malloc((size_t)(walk->last * walk->N) * sizeof *sums)) != NULL) column_sums(&f, sums);
        else status = tg_fail(err, TG_E_MEMORY, "no memory for walks over %lld nodes", (long long)walk->N);
    }
    if (status == TG_OK && walk->directed) status = restrict_directed(&f, err);
    if (status == TG_OK && (of == NULL || moving == NULL))
        status = tg_fail(err, TG_E_MEMORY, "no memory for walks from %lld nodes", (long long)n);
    for (int64_t i = 0; status == TG_OK && i < n; i++) {
        const int64_t node = nodes == NULL ? i : nodes[i];
        of[i] = node < 0 || alone(&f, node) ? -1 : (int32_t)some;
        if (of[i] >= 0) moving[some++] = node;
    }
    if (status == TG_OK && (diagonal = malloc((size_t)(some * walk->last + 1) * sizeof *diagonal)) == NULL)
        status = tg_fail(err, TG_E_MEMORY, "no memory for walks from %lld nodes", (long long)n);
    if (status == TG_OK && some > 0) status = diagonals(&f, moving, some, diagonal, err);
    if (status == TG_OK) write_rows(to, ld, &f, nodes, n, of, diagonal, sums);
    field_free(&f);
    free(sums);
    free(diagonal);
    free(of);
    free(moving);
    return status;
}
