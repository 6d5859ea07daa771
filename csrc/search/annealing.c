/* Chains side by side, each by the rule of Metropolis and Hastings. A chain goes on through codes whose scores are known
   until it proposes one whose score is not. Annealing proposes a change of one parameter, and its way back is as likely. */
#include "search/methods.h"

#include <math.h>
#include <string.h>

enum {
    WALK = 64,       /* moves of a chain per batch through known scores */
    TRIES = 16,      /* before a chain that knows everything around it starts anew */
    EXCHANGE = 4,    /* batches between two exchanges */
    ACCEPT = 1 << 30 /* counter of the draw that accepts; draws of a proposal have smaller ones */
};

static const tg_mover *mover_of(const tg_search *s) {
    return s->options.method == TG_SEARCH_LANGEVIN ? &tg_langevin_mover : &tg_annealing_mover;
}

static uint64_t key_of(const tg_search *s, int64_t chain) {
    return tg_key(tg_search_key(s, TG_DRAW_CHAIN, (uint64_t)chain), (uint64_t)s->steps[chain]);
}

/* The chain moves to a proposal with a known score, or stays. */
static void decide(tg_search *s, int64_t chain, int64_t to, double temperature) {
    const int64_t from = s->member[chain];
    const double u = tg_uniform(key_of(s, chain), ACCEPT), score = s->seen.score[to];
    s->steps[chain]++;
    if (!isfinite(score)) return;
    const double gain = (s->seen.score[from] - score) / temperature;
    if (log(u) < gain + mover_of(s)->log_back(s, from, to, temperature)) s->member[chain] = to;
}

/* A code that was not asked for yet, near a chain that finds none by itself; 0: there is none. */
static int leave(tg_search *s, int64_t chain) {
    const uint64_t key = tg_key(key_of(s, chain), 1);
    uint64_t counter = 0;
    memcpy(s->spare, s->seen.code + s->member[chain] * s->P, (size_t)s->P * sizeof *s->spare);
    for (int i = 0; i < TRIES; i++) {
        const int64_t p = s->free[tg_below(key, counter++, (uint64_t)s->frees)];
        tg_search_move(s, key, &counter, p, s->spare);
        if (tg_seen_find(&s->seen, s->spare) < 0) return 1;
    }
    return tg_search_fresh(s, s->spare);
}

/* Go on with a chain. Its next proposal without a score waits for one. */
static tg_status walk(tg_search *s, int64_t chain, double temperature, tg_error *err) {
    for (int i = 0; i < WALK; i++) {
        const int64_t from = s->member[chain];
        mover_of(s)->propose(s, key_of(s, chain), from, temperature, s->spare);
        const int64_t at = tg_seen_find(&s->seen, s->spare);
        if (at < 0) return tg_search_wait(s, s->spare, chain, err);
        if (at >= s->seen.told) return TG_OK; /* another chain asked for it: the same proposal comes again */
        if (at == from) s->steps[chain]++;
        else decide(s, chain, at, temperature);
    }
    return leave(s, chain) ? tg_search_wait(s, s->spare, chain, err) : TG_OK;
}

tg_status tg_chains_ask(tg_search *s, int64_t most, tg_error *err) {
    const double temperature = tg_search_temperature(s);
    const int64_t first = s->rounds % s->filled;
    tg_status status = TG_OK;
    for (int64_t i = 0; status == TG_OK && s->frees > 0 && i < s->filled && tg_search_waiting(s) < most; i++)
        status = walk(s, (first + i) % s->filled, temperature, err);
    return status;
}

/* The worst chain goes on from where the best one is. */
static void exchange(tg_search *s) {
    int64_t best = 0, worst = 0;
    for (int64_t c = 1; c < s->filled; c++) {
        const double score = s->seen.score[s->member[c]];
        if (score < s->seen.score[s->member[best]]) best = c;
        if (score > s->seen.score[s->member[worst]]) worst = c;
    }
    s->member[worst] = s->member[best];
}

void tg_chains_tell(tg_search *s, int64_t first) {
    const double temperature = tg_search_temperature(s);
    for (int64_t at = first; at < s->seen.told; at++) decide(s, s->owner[at - first], at, temperature);
    const int fixed = s->options.hot >= 0 && s->options.hot == s->options.cold;
    if (!fixed && s->rounds % EXCHANGE == EXCHANGE - 1) exchange(s);
}

static void propose(tg_search *s, uint64_t key, int64_t from, double temperature, int32_t *code) {
    uint64_t counter = 0;
    (void)temperature;
    memcpy(code, s->seen.code + from * s->P, (size_t)s->P * sizeof *code);
    tg_search_move(s, key, &counter, s->free[tg_below(key, counter++, (uint64_t)s->frees)], code);
}

static double log_back(tg_search *s, int64_t from, int64_t to, double temperature) {
    (void)s, (void)from, (void)to, (void)temperature;
    return 0;
}

const tg_mover tg_annealing_mover = {propose, log_back};
