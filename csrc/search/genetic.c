/* A genetic algorithm without generations: children of the best codes so far, which take the place of worse ones as soon as
   their scores are known. Members are all different, since no code is asked for twice. */
#include "search/methods.h"

#include <math.h>
#include <string.h>

enum { TRIES = 32 };

/* One of two random members: the better of them. */
static const int32_t *parent(const tg_search *s, uint64_t key, uint64_t *counter) {
    const int64_t a = (int64_t)tg_below(key, (*counter)++, (uint64_t)s->filled),
                  b = (int64_t)tg_below(key, (*counter)++, (uint64_t)s->filled);
    return s->seen.code + s->member[a < b ? a : b] * s->P;
}

/* Every parameter from one of two parents, and some of them changed. */
static void make_child(const tg_search *s, uint64_t key, uint64_t *counter, int32_t *child) {
    const int32_t *one = parent(s, key, counter), *other = parent(s, key, counter);
    const double chance = s->options.rate / (double)s->frees;
    memcpy(child, one, (size_t)s->P * sizeof *child);
    for (int64_t i = 0; i < s->frees; i++) {
        const int64_t p = s->free[i];
        if (tg_below(key, (*counter)++, 2)) child[p] = other[p];
        if (tg_uniform(key, (*counter)++) < chance) tg_search_move(s, key, counter, p, child);
    }
}

tg_status tg_genetic_ask(tg_search *s, int64_t most, tg_error *err) {
    tg_status status = TG_OK;
    while (status == TG_OK && s->frees > 0 && tg_search_waiting(s) < most) {
        const uint64_t key = tg_search_key(s, TG_DRAW_CHILD, (uint64_t)s->drawn++);
        uint64_t counter = 0;
        make_child(s, key, &counter, s->spare);
        int known = tg_seen_find(&s->seen, s->spare) >= 0;
        for (int i = 0; known && i < TRIES; i++) {
            const int64_t p = s->free[tg_below(key, counter++, (uint64_t)s->frees)];
            tg_search_move(s, key, &counter, p, s->spare);
            known = tg_seen_find(&s->seen, s->spare) >= 0;
        }
        if (known && !tg_search_fresh(s, s->spare)) break;
        status = tg_search_wait(s, s->spare, -1, err);
    }
    return status;
}

void tg_genetic_tell(tg_search *s, int64_t first) {
    const double *score = s->seen.score;
    for (int64_t at = first; at < s->seen.told; at++) {
        if (!isfinite(score[at])) continue;
        int64_t place = s->filled;
        while (place > 0 && score[s->member[place - 1]] > score[at]) place--;
        if (place == s->options.members) continue;
        const int64_t last = s->filled < s->options.members ? s->filled++ : s->filled - 1;
        memmove(s->member + place + 1, s->member + place, (size_t)(last - place) * sizeof *s->member);
        s->member[place] = at;
    }
}
