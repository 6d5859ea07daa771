/* Discrete Langevin proposals (Zhang, Liu, Liu 2022): all parameters at once, each value with a chance that falls with the
   change of the score that the slope at the present code foretells, and that is smaller for other values than for the
   present one. The rule of Metropolis and Hastings makes up for what the slope does not see. */
#include "search/methods.h"

#include <math.h>
#include <string.h>

/* weight(S): logarithms of the chances of all values at the seen `from`. */
static void log_chances(const tg_search *s, int64_t from, double temperature, double *weight) {
    const int32_t *code = s->seen.code + from * s->P;
    const float *change = s->seen.change + from * s->S;
    const double away = log(s->options.rate / (double)(s->S - s->P + 1));
    for (int64_t p = 0; p < s->P; p++) {
        const int64_t first = s->offset[p], end = s->offset[p + 1];
        double most = -INFINITY, sum = 0;
        for (int64_t v = first; v < end; v++) {
            weight[v] = -(double)change[v] / (2 * temperature) + (v - first == code[p] ? 0 : away);
            if (weight[v] > most) most = weight[v];
        }
        for (int64_t v = first; v < end; v++) sum += exp(weight[v] - most);
        for (int64_t v = first; v < end; v++) weight[v] -= most + log(sum);
    }
}

static void propose(tg_search *s, uint64_t key, int64_t from, double temperature, int32_t *code) {
    log_chances(s, from, temperature, s->weight);
    memcpy(code, s->seen.code + from * s->P, (size_t)s->P * sizeof *code);
    for (int64_t i = 0; i < s->frees; i++) {
        const int64_t p = s->free[i], first = s->offset[p];
        double left = tg_uniform(key, (uint64_t)i);
        for (int32_t v = 0; v < s->sizes[p] && left >= 0; v++) {
            left -= exp(s->weight[first + v]);
            if (left < 0) code[p] = v;
        }
    }
}

static double log_chance(tg_search *s, int64_t from, int64_t to, double temperature) {
    const int32_t *code = s->seen.code + to * s->P;
    double sum = 0;
    log_chances(s, from, temperature, s->weight);
    for (int64_t p = 0; p < s->P; p++) sum += s->weight[s->offset[p] + code[p]];
    return sum;
}

static double log_back(tg_search *s, int64_t from, int64_t to, double temperature) {
    return log_chance(s, to, from, temperature) - log_chance(s, from, to, temperature);
}

const tg_mover tg_langevin_mover = {propose, log_back};
