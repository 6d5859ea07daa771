/* A search for the code with the least score. A code is a row of P small whole numbers, number p in 0..sizes[p]-1. A
   search says which codes to score next, is told their scores, and so on: whoever calls it scores them, by whatever
   means. What it asks for is a function of its settings, its seed and what it was told, and no code is asked for twice.

   A chain or a population goes through known scores without asking, so that a code that is proposed again costs
   nothing, and a chain still follows its distribution. */
#ifndef TG_SEARCH_H
#define TG_SEARCH_H

#include <stdint.h>

#include "base/status.h"
#include "search/best.h"
#include "search/seen.h"

typedef enum {
    TG_SEARCH_GENETIC,    /* children of a population of the best so far */
    TG_SEARCH_ANNEALING,  /* chains that change single parameters, ever colder */
    TG_SEARCH_LANGEVIN,   /* chains whose proposals follow the slope of the score */
    TG_SEARCH_SAMPLE,     /* random codes */
    TG_SEARCH_EXHAUSTIVE, /* all codes in their order */
    TG_SEARCHES
} tg_search_method;

extern const char *const tg_search_names[TG_SEARCHES];

typedef struct tg_search_options {
    tg_search_method method;
    uint64_t seed;
    int64_t members;  /* codes of the population, or chains; >= 1 */
    int64_t starts;   /* random codes before it begins, >= members */
    int64_t budget;   /* scores after which a chain is at its coldest */
    double rate;      /* parameters that a child or a proposal changes, in the mean */
    double hot, cold; /* temperatures in units of the score; < 0: by the spread of the scores of the starts */
    int64_t keep;     /* best codes that are remembered, >= 1 */
} tg_search_options;

typedef struct tg_search {
    tg_search_options options;
    int64_t P, S;     /* parameters; values of all of them */
    int32_t *sizes;   /* (P) */
    int64_t *offset;  /* (P + 1): first value of each parameter among all S */
    uint8_t *ordered; /* (P): whether numbers next to each other are alike */
    int64_t *free;    /* (frees): parameters with more than one value */
    int64_t frees;
    int64_t size;         /* codes in all, -1 if 2^61 or more */
    const int32_t *given; /* (givens, P): starts to take before random ones, of the caller */
    int64_t givens, taken;
    tg_seen seen; /* what waits for its score comes last */
    tg_best best;
    int64_t *member;        /* (members): numbers among the seen; of a population the best first */
    int64_t *steps;         /* (members): moves of a chain so far */
    int64_t *owner;         /* (members): chains that asked for the codes that wait */
    int64_t filled;         /* members there are */
    int64_t drawn;          /* draws of single codes so far */
    int64_t scored, failed; /* finite scores that were told, and others */
    int64_t rounds;         /* batches that were told */
    double least;           /* score so far */
    double spread;          /* of the scores of the starts */
    int32_t *spare;         /* (P) */
    double *weight;         /* (S) */
} tg_search;

/* For sizes (P), each >= 1, and `ordered` (P) (NULL: none is). `given` (givens, P) must live as long as the search.
   Free also after an error. */
tg_status tg_search_new(tg_search *search, const tg_search_options *options, const int32_t *sizes,
                        const uint8_t *ordered, int64_t P, const int32_t *given, int64_t givens,
                        tg_error *err);
void tg_search_free(tg_search *search);

/* Codes that wait for scores, tg_search_waiting of them: those of before if there are any, else up to `most` new ones.
   None: there are no others. */
tg_status tg_search_ask(tg_search *search, int64_t most, tg_error *err);
int64_t tg_search_waiting(const tg_search *search);
const int32_t *tg_search_codes(const tg_search *search);

/* The scores (n) of all codes that wait, infinite for those that cannot be. For TG_SEARCH_LANGEVIN also changes (n, S):
   by how much the score would change, to the first order, were one parameter to take another value. */
tg_status tg_search_tell(tg_search *search, const double *scores, const float *changes, int64_t n,
                         tg_error *err);

/* Whether the method reads changes. */
int tg_search_sloped(const tg_search *search);

/* The temperature of the chains. */
double tg_search_temperature(const tg_search *search);

/* After the fields of a saved search were put back: a TG_E_CHECKPOINT unless they can be those of this one. */
tg_status tg_search_check(const tg_search *search, tg_error *err);

#endif
