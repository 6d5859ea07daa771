/* What the methods of a search share, and what each of them does. */
#ifndef TG_METHODS_H
#define TG_METHODS_H

#include "base/rng.h"
#include "search/search.h"

/* Labels of keys: draws of different purposes share none. */
enum { TG_DRAW_START = 1, TG_DRAW_CHILD, TG_DRAW_CHAIN, TG_DRAW_FRESH, TG_DRAW_ORDER };

static inline uint64_t tg_search_key(const tg_search *s, uint64_t purpose, uint64_t number) {
    return tg_key(tg_key(tg_key(s->options.seed, purpose), number), 0);
}

/* A parameter takes another value than it has: half the time one nearby, if its values are ordered. The chance from one
   value to another is that of the way back. One step away in half
   of these cases, two in a quarter, and so on; the value stays if that is beyond the end. */
void tg_search_move(const tg_search *s, uint64_t key, uint64_t *counter, int64_t p, int32_t *code);

/* code(P) that was never asked for, uniform among them or nearly so; 0: there is none. */
int tg_search_fresh(tg_search *s, int32_t *code);

/* Append `code` to those that wait, asked for by chain `owner`. */
tg_status tg_search_wait(tg_search *s, const int32_t *code, int64_t owner, tg_error *err);

/* Up to `most` codes of a population, or of chains. */
tg_status tg_genetic_ask(tg_search *s, int64_t most, tg_error *err);
tg_status tg_chains_ask(tg_search *s, int64_t most, tg_error *err);

/* Called after the scores of the seen from `first` on, which a method asked for, have arrived. */
void tg_genetic_tell(tg_search *s, int64_t first);
void tg_chains_tell(tg_search *s, int64_t first);

/* Proposals of a chain at the seen `from` into code(P), and the logarithm of the chance of the way back over that of the
   way there. */
typedef struct tg_mover {
    void (*propose)(tg_search *s, uint64_t key, int64_t from, double temperature, int32_t *code);
    double (*log_back)(tg_search *s, int64_t from, int64_t to, double temperature);
} tg_mover;
extern const tg_mover tg_annealing_mover, tg_langevin_mover;

#endif
