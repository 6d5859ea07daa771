#include <math.h>

#include "kernels/kernels.h"
#include "optim/optim.h"

static void adam(const tg_optimizer *o, int64_t n, float *w, const float *g, float *m1, float *m2,
                 double scale, double lr, double decay) {
    const float fix1 = (float)(1 / (1 - pow(o->beta1, (double)o->step)));
    const float fix2 = (float)(1 / sqrt(1 - pow(o->beta2, (double)o->step)));
    tg_kernel_table()->adamw(n, w, g, m1, m2, (float)scale, (float)lr, (float)(1 - o->beta1),
                             (float)(1 - o->beta2), (float)o->eps, (float)decay, fix1, fix2);
}

/* Decoupled weight decay: Loshchilov & Hutter 2019. */
void tg_adamw_rule(const tg_optimizer *o, const tg_stretch *at) {
    adam(o, at->n, at->w, at->g, at->moment[0], at->moment[1], at->scale, at->lr, at->weight_decay);
}

/* The decay is a part of the gradient: Kingma & Ba 2015, as torch.optim.Adam. */
void tg_adam_rule(const tg_optimizer *o, const tg_stretch *at) {
    enum { STRIP = 1024 };
    float sum[STRIP];
    const float scale = (float)at->scale, decay = (float)at->weight_decay;
    if (decay == 0) {
        tg_adamw_rule(o, at);
        return;
    }
    for (int64_t start = 0; start < at->n; start += STRIP) {
        const int64_t n = at->n - start < STRIP ? at->n - start : STRIP;
        for (int64_t i = 0; i < n; i++) sum[i] = at->g[start + i] * scale + decay * at->w[start + i];
        adam(o, n, at->w + start, sum, at->moment[0] + start, at->moment[1] + start, 1, at->lr, 0);
    }
}
