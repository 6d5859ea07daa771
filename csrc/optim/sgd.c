#include "optim/optim.h"

/* m = momentum m + (g + decay w), w -= lr m: as torch.optim.SGD. */
void tg_sgd_rule(const tg_optimizer *o, const tg_stretch *at) {
    const float scale = (float)at->scale, decay = (float)at->weight_decay, lr = (float)at->lr,
                momentum = (float)o->momentum;
    float *restrict w = at->w, *restrict m = at->moment[0];
    const float *restrict g = at->g;
    for (int64_t i = 0; i < at->n; i++) {
        m[i] = momentum * m[i] + (g[i] * scale + decay * w[i]);
        w[i] -= lr * m[i];
    }
}
