#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

enum { BLOCK = 1 << 14, MOST_BLOCKS = 4096 };

static const struct {
    const char *name;
    int moments;
    void (*rule)(const tg_optimizer *, const tg_stretch *);
} rules[TG_OPTIMIZERS] = {
#define TG_ROW(kind, name, moments) [kind] = {#name, moments, tg_##name##_rule},
    TG_OPTIMIZER_LIST(TG_ROW)
#undef TG_ROW
};

const char *tg_optimizer_name(tg_optimizer_kind kind) { return rules[kind].name; }

int tg_optimizer_moments(tg_optimizer_kind kind) { return rules[kind].moments; }

/* Blocks of fixed size, their sums added in order: the same norm for any number of threads. */
double tg_global_norm(int64_t n, const float *g) {
    const tg_kernels *k = tg_kernel_table();
    double total = 0, sums[MOST_BLOCKS];
    for (int64_t start = 0; start < n; start += (int64_t)BLOCK * MOST_BLOCKS) {
        const int64_t rest = n - start,
                      blocks = rest < (int64_t)BLOCK * MOST_BLOCKS ? (rest + BLOCK - 1) / BLOCK : MOST_BLOCKS;
#pragma omp parallel for schedule(static) num_threads(tg_threads(2.0 * (double)n))
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t left = rest - i * BLOCK;
            sums[i] = k->sum_squares(left < BLOCK ? left : BLOCK, g + start + i * BLOCK);
        }
        for (int64_t i = 0; i < blocks; i++) total += sums[i];
    }
    return sqrt(total);
}

/* ---- an optimizer as a text describes it ---- */

enum { KIND, LR, STEP, CLIP, WEIGHT_DECAY, BETA1, BETA2, EPS, MOMENTUM, GROUPS, ATTRS };
#define BELOW_ONE 0.9999999 /* about a unit of float32 below 1 */
#define ANY       1e300
static const tg_attr attrs[ATTRS] = {
#define TG_WORD(kind, name, moments) "|" #name
    [KIND] = {"kind", TG_ATTR_CHOICE, 0, 0, 0, 0, &(TG_OPTIMIZER_LIST(TG_WORD))[1], "rule of the updates"},
#undef TG_WORD
    [LR] = {"lr", TG_ATTR_REAL, 0, 0, 0, ANY, NULL, "learning rate"},
    [STEP] = {"step", TG_ATTR_INT, 1, 0, 1, 1e15, NULL, "counts from 1"},
    [CLIP] = {"clip", TG_ATTR_REAL, 0, 0, 0, ANY, NULL, "norm that a gradient is scaled down to; 0: never"},
    [WEIGHT_DECAY] = {"weight_decay", TG_ATTR_REAL, 0, 0, -ANY, ANY, NULL,
                      "of all parameters, without groups"},
    [BETA1] = {"beta1", TG_ATTR_REAL, 0, 0.9, 0, BELOW_ONE, NULL, "decay of the first moment (adamw, adam)"},
    [BETA2] = {"beta2", TG_ATTR_REAL, 0, 0.999, 0, BELOW_ONE, NULL,
               "decay of the second moment (adamw, adam)"},
    [EPS] = {"eps", TG_ATTR_REAL, 0, 1e-8, 1e-30, 1, NULL,
             "added to the root of the second moment (adamw, adam)"},
    [MOMENTUM] = {"momentum", TG_ATTR_REAL, 0, 0.9, 0, BELOW_ONE, NULL,
                  "decay of the sum of gradients (sgd)"},
    [GROUPS] = {"groups", TG_ATTR_ITEMS, 0, 0, 0, 0, NULL,
                "[begin, end, factor of the learning rate, weight decay] that follow each other"},
};

const tg_attr *tg_optimizer_attrs(int *n) {
    *n = ATTRS;
    return attrs;
}

/* Group i, which begins where the one before ended. */
static tg_status read_group(tg_group *group, int i, int64_t begin, int64_t P, const tg_json_value *given,
                            tg_error *err) {
    enum { BEGIN, END, FACTOR, DECAY, NUMBERS };
    double x[NUMBERS] = {0};
    int n = 0;
    char what[32];
    for (const tg_json_value *v = given->first; v != NULL && n < NUMBERS; v = v->next)
        x[n++] = v->kind == TG_JSON_NUMBER ? v->number : NAN;
    *group = (tg_group){.lr_scale = x[FACTOR], .weight_decay = x[DECAY]};
    snprintf(what, sizeof what, "groups[%d]", i);
    if (given->kind != TG_JSON_ARRAY || given->count != NUMBERS)
        return tg_attr_wrong(err, TG_E_CONFIG, "optimizer", what, "four numbers", given);
    if (!(x[BEGIN] == (double)begin && x[END] >= x[BEGIN] && x[END] <= (double)P && x[END] == floor(x[END])))
        return tg_fail(err, TG_E_CONFIG, "%s: expected parameters from %lld to at most %lld, got %g to %g",
                       what, (long long)begin, (long long)P, x[BEGIN], x[END]);
    if (!(x[FACTOR] >= 0 && x[FACTOR] <= ANY && fabs(x[DECAY]) <= ANY))
        return tg_fail(err, TG_E_CONFIG,
                       "%s: expected a factor >= 0 and a weight decay, both finite, got %g and %g", what,
                       x[FACTOR], x[DECAY]);
    group->begin = begin;
    group->end = (int64_t)x[END];
    return TG_OK;
}

static tg_status read_groups(tg_optimizer *o, int64_t P, const tg_json_value *list, tg_error *err) {
    int64_t end = 0;
    tg_status status = TG_OK;
    if (list->count > P)
        return tg_attr_wrong(err, TG_E_CONFIG, "optimizer", "groups", "at most as many as parameters", list);
    if ((o->groups = malloc((size_t)list->count * sizeof *o->groups + 1)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for %d groups", list->count);
    for (const tg_json_value *v = list->first; status == TG_OK && v != NULL; v = v->next) {
        status = read_group(&o->groups[o->n_groups], o->n_groups, end, P, v, err);
        end = o->groups[o->n_groups++].end;
    }
    if (status != TG_OK || end == P) return status;
    return tg_fail(err, TG_E_CONFIG, "groups: expected all %lld parameters, got the first %lld", (long long)P,
                   (long long)end);
}

tg_status tg_optimizer_read(tg_optimizer *o, int64_t P, const tg_json_value *given, tg_error *err) {
    tg_attr_value v[ATTRS];
    *o = (tg_optimizer){.groups = NULL};
    const tg_status status = tg_attrs_read(attrs, ATTRS, given, NULL, "optimizer", TG_E_CONFIG, v, err);
    if (status != TG_OK) return status;
    *o = (tg_optimizer){.kind = (tg_optimizer_kind)v[KIND].number,
                        .lr = v[LR].number,
                        .beta1 = v[BETA1].number,
                        .beta2 = v[BETA2].number,
                        .eps = v[EPS].number,
                        .momentum = v[MOMENTUM].number,
                        .clip = v[CLIP].number,
                        .step = (int64_t)v[STEP].number};
    if (v[GROUPS].list != NULL) return read_groups(o, P, v[GROUPS].list, err);
    if ((o->groups = malloc(sizeof *o->groups)) == NULL)
        return tg_fail(err, TG_E_MEMORY, "no memory for a group");
    *o->groups = (tg_group){0, P, 1, v[WEIGHT_DECAY].number};
    o->n_groups = 1;
    return TG_OK;
}

void tg_optimizer_free(tg_optimizer *o) {
    free(o->groups);
    o->groups = NULL;
}

static void update_group(const tg_optimizer *o, const tg_group *group, float *w, const float *g,
                         float *const *moments, double scale) {
    const int64_t n = group->end - group->begin;
#pragma omp parallel for schedule(static) num_threads(tg_threads(4.0 * (double)n))
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t at = group->begin + i;
        tg_stretch stretch = {.n = n - i < BLOCK ? n - i : BLOCK,
                              .w = w + at,
                              .g = g + at,
                              .lr = o->lr * group->lr_scale,
                              .weight_decay = group->weight_decay,
                              .scale = scale};
        for (int m = 0; m < rules[o->kind].moments; m++) stretch.moment[m] = moments[m] + at;
        rules[o->kind].rule(o, &stretch);
    }
}

tg_status tg_optimizer_update(const tg_optimizer *o, int64_t P, float *w, const float *g,
                              float *const *moments, double *norm, tg_error *err) {
    TG_ASSERT(o->step >= 1 && o->n_groups >= 0);
    const double length = tg_global_norm(P, g);
    if (norm != NULL) *norm = length;
    if (!isfinite(length))
        return tg_fail(err, TG_E_NOT_FINITE,
                       "the gradient is not finite: lower the learning rate or look at the data");
    /* torch.nn.utils.clip_grad_norm_: scale by clip / (norm + 1e-6) where that is below 1 */
    const double scale = o->clip > 0 ? o->clip / (length + 1e-6) : 1;
    for (int i = 0; i < o->n_groups; i++)
        update_group(o, &o->groups[i], w, g, moments, scale < 1 ? scale : 1);
    return TG_OK;
}

void tg_average(int64_t n, double share, const float *w, double *mean) {
#pragma omp parallel for schedule(static) num_threads(tg_threads(3.0 * (double)n))
    for (int64_t i = 0; i < n; i++) mean[i] += share * ((double)w[i] - mean[i]);
}
