/* The logarithm of a runtime is taken as the sum of what its config and what its block contribute, fitted by Huber's
   robust regression: weighted least squares whose weights are those of the residuals before. Blocks hold equally many
   of the repeated configs, in the order of measurement. With the configs eliminated, what is left is a Laplacian over
   the blocks, which are joined by the configs that they share. */
#include "rank/repeats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 32, BLOCK_ROWS = 20, ROUNDS = 12 }; /* blocks at most; repeated configs in each at least */
enum { PAIRS = 50 };                                /* differences that modes are looked for in, at least */
static const double sure = 6;                       /* standard errors that a shift must have */
static const double explained = 0.8, share = 0.1;   /* of the variance; of the differences in either part */

typedef double matrix[BLOCKS][BLOCKS];

/* Repeated measurements (n), of G configs. */
typedef struct sample {
    int64_t n, G;
    int64_t *row, *group; /* (n): row ascending */
    double *log, *level;  /* (n): logarithms of times; of the level of their block */
    double *work;         /* (n) */
} sample;

/* What the regression needs and gives. */
typedef struct fit {
    int B;
    matrix inverse;               /* generalised, of the Laplacian */
    int linked[BLOCKS][BLOCKS];   /* by configs that both have, or by blocks between */
    double effect[BLOCKS], scale; /* of the blocks; of the noise */
    double *cells, *sums, *mean;  /* (G, B), (G), (G) */
    double *weight;               /* (n) */
} fit;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of values (n > 0) that are sorted. */
static double middle(const double *sorted, int64_t n) {
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double median(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return middle(values, n);
}

static int block_of(int64_t i, int B, int64_t n) { return (int)(i * B / n); }
static int64_t first_of(int b, int B, int64_t n) { return (b * n + B - 1) / B; }

/* ---- which measurements ---- */

static tg_status no_memory(int64_t n, tg_error *err) {
    return tg_fail(err, TG_E_MEMORY, "no memory for %lld runtimes", (long long)n);
}

static void sample_free(sample *s) {
    free(s->row), free(s->group), free(s->log), free(s->level), free(s->work);
}

static tg_status sample_take(sample *s, const int64_t *group, const double *time, int64_t C, tg_error *err) {
    int64_t most = -1;
    for (int64_t c = 0; c < C; c++) most = group[c] > most ? group[c] : most;
    int64_t *copies = calloc((size_t)most + 2, sizeof *copies),
            *number = malloc(((size_t)most + 2) * sizeof *number);
    const size_t room = (size_t)C + 1;
    *s = (sample){0,
                  0,
                  malloc(room * sizeof *s->row),
                  malloc(room * sizeof *s->group),
                  malloc(room * sizeof *s->log),
                  calloc(room, sizeof *s->level),
                  malloc(room * sizeof *s->work)};
    const int made = copies && number && s->row && s->group && s->log && s->level && s->work;
    for (int64_t c = 0; made && c < C; c++) copies[group[c]] += time[c] > 0;
    for (int64_t g = 0; made && g <= most; g++) number[g] = copies[g] > 1 ? s->G++ : -1;
    for (int64_t c = 0; made && c < C; c++) {
        if (!(time[c] > 0) || number[group[c]] < 0) continue;
        s->row[s->n] = c, s->group[s->n] = number[group[c]], s->log[s->n] = log(time[c]);
        s->n++;
    }
    free(copies);
    free(number);
    return made ? TG_OK : no_memory(C, err);
}

/* ---- noise ---- */

static tg_status take_noise(tg_repeats *found, const sample *s, tg_error *err) {
    double *low = malloc((size_t)s->G * sizeof *low), *high = malloc((size_t)s->G * sizeof *high);
    if (low == NULL || high == NULL) {
        free(low), free(high);
        return no_memory(s->n, err);
    }
    for (int64_t g = 0; g < s->G; g++) low[g] = INFINITY, high[g] = -INFINITY;
    for (int64_t i = 0; i < s->n; i++) {
        low[s->group[i]] = fmin(low[s->group[i]], s->log[i]);
        high[s->group[i]] = fmax(high[s->group[i]], s->log[i]);
    }
    for (int64_t g = 0; g < s->G; g++) low[g] = expm1(high[g] - low[g]);
    found->noise_median = median(low, s->G);
    found->noise_max = low[s->G - 1];
    free(low), free(high);
    return TG_OK;
}

/* ---- shifts ---- */

/* Which blocks configs or blocks between join. */
static void link(fit *f, matrix laplacian) {
    for (int i = 0; i < f->B; i++)
        for (int j = 0; j < f->B; j++) f->linked[i][j] = fabs(laplacian[i][j]) > 1e-9;
    for (int k = 0; k < f->B; k++)
        for (int i = 0; i < f->B; i++)
            for (int j = 0; j < f->B; j++) f->linked[i][j] |= f->linked[i][k] && f->linked[k][j];
}

/* The level of a set of linked blocks is free, so that of its first is 0; the others' part is positive definite and
   inverted in place, by Gauss and Jordan. */
static void invert(fit *f, matrix a) {
    for (int k = 0; k < f->B; k++) {
        int first = 0;
        while (first < k && !f->linked[first][k]) first++;
        const double inverse = first < k && a[k][k] > 0 ? 1 / a[k][k] : 0;
        if (inverse == 0)
            for (int i = 0; i < f->B; i++) a[i][k] = a[k][i] = 0;
        a[k][k] = inverse;
        for (int j = 0; j < f->B; j++)
            if (j != k) a[k][j] *= inverse;
        for (int i = 0; i < f->B; i++) {
            if (i == k) continue;
            const double factor = a[i][k];
            for (int j = 0; j < f->B; j++)
                if (j != k) a[i][j] -= factor * a[k][j];
            a[i][k] = -factor * inverse;
        }
    }
    memcpy(f->inverse, a, sizeof f->inverse);
}

/* Effects of the blocks with the weights as they are. */
static void solve(fit *f, const sample *s) {
    const int B = f->B;
    matrix laplacian = {{0}};
    double right[BLOCKS] = {0};
    memset(f->cells, 0, (size_t)(s->G * B) * sizeof *f->cells);
    memset(f->sums, 0, (size_t)s->G * sizeof *f->sums);
    memset(f->mean, 0, (size_t)s->G * sizeof *f->mean);
    for (int64_t i = 0; i < s->n; i++) {
        const int b = block_of(i, B, s->n);
        f->cells[s->group[i] * B + b] += f->weight[i];
        f->sums[s->group[i]] += f->weight[i];
        f->mean[s->group[i]] += f->weight[i] * s->log[i];
        laplacian[b][b] += f->weight[i];
        right[b] += f->weight[i] * s->log[i];
    }
    for (int64_t g = 0; g < s->G; g++) {
        const double *cells = f->cells + g * B;
        for (int i = 0; i < B; i++) {
            if (cells[i] == 0) continue;
            for (int j = 0; j < B; j++) laplacian[i][j] -= cells[i] * cells[j] / f->sums[g];
            right[i] -= cells[i] * f->mean[g] / f->sums[g];
        }
    }
    link(f, laplacian);
    invert(f, laplacian);
    for (int i = 0; i < B; i++) {
        f->effect[i] = 0;
        for (int j = 0; j < B; j++) f->effect[i] += f->inverse[i][j] * right[j];
    }
}

/* Weights by the residuals, and the scale of those. */
static void weigh(fit *f, const sample *s) {
    memset(f->mean, 0, (size_t)s->G * sizeof *f->mean);
    for (int64_t i = 0; i < s->n; i++)
        f->mean[s->group[i]] += f->weight[i] * (s->log[i] - f->effect[block_of(i, f->B, s->n)]);
    for (int64_t i = 0; i < s->n; i++) {
        const double rest = s->log[i] - f->effect[block_of(i, f->B, s->n)];
        s->level[i] = s->work[i] = fabs(rest - f->mean[s->group[i]] / f->sums[s->group[i]]);
    }
    const double freedom = fmax(0.05, 1 - (double)(s->G + f->B) / (double)s->n);
    f->scale = 1.4826 * median(s->work, s->n) / sqrt(freedom);
    for (int64_t i = 0; i < s->n; i++) {
        if (f->scale > 0) f->weight[i] = fmin(1, 1.345 * f->scale / fmax(s->level[i], 1e-300));
        f->weight[i] = fmax(f->weight[i], 1e-6);
    }
}

/* The largest of the shifts from block to block that are sure. */
static void choose(tg_repeats *found, const fit *f, const sample *s) {
    for (int gap = 1; gap <= 2; gap++) /* a step within a block shows in full between its neighbours only */
        for (int i = 0; i + gap < f->B; i++) {
            const int j = i + gap;
            const double step = f->effect[j] - f->effect[i], size = expm1(step);
            const double variance = f->inverse[i][i] + f->inverse[j][j] - 2 * f->inverse[i][j];
            const double error = f->scale * sqrt(fmax(variance, 0));
            if (!f->linked[i][j] || fabs(step) <= fmax(sure * error, fmax(f->scale, 1e-6))) continue;
            if (found->row >= 0 && fabs(size) <= fabs(found->size)) continue;
            const int64_t first = first_of(i + 1, f->B, s->n), after = first_of(i + 2, f->B, s->n);
            found->row = s->row[gap == 1 ? first : first + (after - first) / 2];
            found->size = size, found->error = error;
        }
}

/* The largest shift, and the level of each measurement, 0 where there is none. */
static tg_status take_shift(tg_repeats *found, const sample *s, tg_error *err) {
    const int64_t blocks = s->n / BLOCK_ROWS;
    fit f = {.B = blocks < BLOCKS ? (int)blocks : BLOCKS};
    found->row = -1;
    if (f.B < 2) return TG_OK;
    f.cells = malloc((size_t)(s->G * f.B) * sizeof *f.cells);
    f.sums = malloc((size_t)s->G * sizeof *f.sums);
    f.mean = malloc((size_t)s->G * sizeof *f.mean);
    f.weight = malloc((size_t)s->n * sizeof *f.weight);
    const int made = f.cells && f.sums && f.mean && f.weight;
    for (int64_t i = 0; made && i < s->n; i++) f.weight[i] = 1;
    for (int round = 0; made && round < ROUNDS; round++) {
        solve(&f, s);
        weigh(&f, s);
    }
    if (made) choose(found, &f, s);
    for (int64_t i = 0; made && i < s->n; i++)
        s->level[i] = found->row < 0 ? 0 : f.effect[block_of(i, f.B, s->n)];
    free(f.cells), free(f.sums), free(f.mean), free(f.weight);
    return made ? TG_OK : no_memory(s->n, err);
}

/* ---- modes ---- */

/* Differences of successive measurements of a config, without their levels, to steps; returns how many. */
static int64_t differences(const sample *s, double *before, double *steps) {
    int64_t count = 0;
    for (int64_t g = 0; g < s->G; g++) before[g] = NAN;
    for (int64_t i = 0; i < s->n; i++) {
        const double now = s->log[i] - s->level[i];
        if (!isnan(before[s->group[i]])) steps[count++] = fabs(now - before[s->group[i]]);
        before[s->group[i]] = now;
    }
    return count;
}

/* The differences are then either small or about the distance. They are split in two where the variance between the
   parts is largest (Otsu, 1979). Noise of one mode leaves less than 0.8 of the variance between the parts. */
static double two_modes(const double *steps, int64_t n) {
    double total = 0, sum = 0, variance = 0, best = -1, below = 0;
    int64_t cut = 0;
    for (int64_t i = 0; i < n; i++) total += steps[i];
    for (int64_t i = 0; i < n; i++)
        variance += (steps[i] - total / (double)n) * (steps[i] - total / (double)n);
    variance /= (double)n;
    for (int64_t i = 1; i < n; i++) {
        sum += steps[i - 1];
        const double low = (double)i / (double)n, apart = (total - sum) / (double)(n - i) - sum / (double)i;
        const double between = low * (1 - low) * apart * apart;
        if (between > best) best = between, cut = i, below = low;
    }
    if (!(variance > 0) || best < explained * variance || below < share || below > 1 - share) return 0;
    return expm1(middle(steps + cut, n - cut));
}

static tg_status take_modes(tg_repeats *found, const sample *s, tg_error *err) {
    double *before = malloc((size_t)s->G * sizeof *before);
    if (before == NULL) return no_memory(s->n, err);
    const int64_t count = differences(s, before, s->work), most = (int64_t)(0.99 * (double)count);
    free(before);
    found->modes = 0;
    if (count < PAIRS) return TG_OK;
    qsort(s->work, (size_t)count, sizeof *s->work, by_value);
    found->modes =
        two_modes(s->work, most > PAIRS ? most : PAIRS); /* outliers would be a part for themselves */
    return TG_OK;
}

tg_status tg_repeats_of(tg_repeats *found, const int64_t *group, const double *time, int64_t C,
                        tg_error *err) {
    for (int64_t c = 0; c < C; c++)
        if (group[c] < 0 || group[c] >= C)
            return tg_fail_field(err, "group", "numbers of configs", "%lld at place %lld",
                                 (long long)group[c], (long long)c);
    sample s;
    tg_status status = sample_take(&s, group, time, C, err);
    found->n = s.n;
    if (status == TG_OK && s.n > 0) status = take_noise(found, &s, err);
    if (status == TG_OK && s.n > 0) status = take_shift(found, &s, err);
    if (status == TG_OK && s.n > 0) status = take_modes(found, &s, err);
    sample_free(&s);
    return status;
}
