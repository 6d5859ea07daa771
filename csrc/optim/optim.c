#include "optim/optim.h"

#include <math.h>
#include <stddef.h>

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

static tg_status check_groups(const tg_optimizer *o, int64_t P, tg_error *err) {
    int64_t end = 0;
    for (int i = 0; i < o->n_groups; i++) {
        const tg_group *group = &o->groups[i];
        if (group->begin != end || group->end < group->begin || group->end > P)
            return tg_fail(err, TG_E_CONFIG,
                           "groups[%d]: expected parameters from %lld to at most %lld, got %lld to %lld", i,
                           (long long)end, (long long)P, (long long)group->begin, (long long)group->end);
        if (!isfinite(group->lr_scale) || group->lr_scale < 0 || !isfinite(group->weight_decay))
            return tg_fail(err, TG_E_CONFIG,
                           "groups[%d]: the learning rate's factor and weight_decay must be finite, the "
                           "factor not negative",
                           i);
        end = group->end;
    }
    if (end != P)
        return tg_fail(err, TG_E_CONFIG, "groups: expected all %lld parameters, got the first %lld",
                       (long long)P, (long long)end);
    return TG_OK;
}

tg_status tg_optimizer_check(const tg_optimizer *o, int64_t P, tg_error *err) {
    const int rates = isfinite(o->lr) && o->lr >= 0 && isfinite(o->clip) && o->clip >= 0;
    const int moments = o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && o->eps > 0 &&
                        isfinite(o->eps) && o->momentum >= 0 && o->momentum < 1;
    if (o->step < 1) return tg_fail(err, TG_E_CONFIG, "step: counts from 1, got %lld", (long long)o->step);
    if (!rates) return tg_fail(err, TG_E_CONFIG, "lr and clip must be finite and not negative");
    if (!moments)
        return tg_fail(err, TG_E_CONFIG, "beta1, beta2 and momentum must be in [0, 1), eps positive");
    return check_groups(o, P, err);
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
    TG_ASSERT(tg_optimizer_check(o, P, NULL) == TG_OK);
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
