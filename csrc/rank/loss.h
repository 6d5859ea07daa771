/* Losses: value and gradient with respect to the scores in one pass. One tg_loss describes a loss
   completely. loss_run.c does checks, weighted sums, lists and threads. No loss is named outside its own file and
   the table, rank/loss_table.h. */
#ifndef TG_LOSS_H
#define TG_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/scratch.h"
#include "base/status.h"

enum { TG_MAX_LOSSES = 8, TG_MAX_LOSS_ATTRS = 6 };
enum { TG_NEED_ORDER = 1, TG_NEED_VALUE = 2, TG_NEED_TIME = 4 };

/* Within a list; the value is the mean over lists. W: sum of the weights of the list's entries, its length if there
   are none.
   SUM         divide by nothing
   MEAN        of terms by entry: divide by W
   MEAN_ALL    divide by W^2 (terms by pair), by W (ListMLE)
   MEAN_PAIRS  divide by the sum of the weights of its pairs */
#define TG_REDUCTION_LIST(R) R(SUM, "sum") R(MEAN, "mean") R(MEAN_ALL, "mean-all") R(MEAN_PAIRS, "mean-pairs")
typedef enum {
#define TG_REDUCTION(id, name) TG_REDUCE_##id,
    TG_REDUCTION_LIST(TG_REDUCTION)
#undef TG_REDUCTION
        TG_REDUCTIONS
} tg_reduction;

/* What a loss reads besides the scores: TG_NEED_ORDER | TG_NEED_VALUE | TG_NEED_TIME. Values must be finite, more than `above`, and
   from 0 to 1 if they are `shares`. */
typedef struct tg_reads {
    unsigned targets;
    double above;
    int shares;
} tg_reads;

/* One list as a loss sees it, everything checked. A pair's weight is weight_i * weight_j, a term by entry has that
   of its entry. Weights enter nothing else: an entry of weight 0 still has its place in a ranking. */
typedef struct tg_list {
    int64_t length;       /* at least tg_loss.least */
    const float *scores;  /* (length,), finite */
    const int64_t *order; /* (length,): smaller = faster; NULL unless read */
    const double *value;  /* (length,); NULL unless read */
    const float *weight;  /* (length,), NULL: all 1 */
    const double *attr;   /* in the order of tg_loss.attrs */
    tg_reduction reduction;
    double share;    /* times this ... */
    uint64_t key;    /* of draws */
    float *gradient; /* (length,) ... out: d value / d scores */
    char *scratch;   /* for the parts that tg_loss.carve takes, aligned as by malloc */
} tg_list;

typedef struct tg_loss {
    const char *name, *doc;
    int least;              /* shorter lists add 0 (but count) */
    unsigned reductions;    /* bits by tg_reduction */
    tg_reduction reduction; /* unless another is asked for */
    tg_reads (*reads)(const double *attr);
    /* Takes the scratch of a list of that length; its work, in scalar operations, roughly. Neither falls with length. */
    double (*carve)(tg_scratch *c, int64_t length);
    double (*run)(const tg_list *list); /* the value, without share */
    const tg_attr *attrs;               /* TG_ATTRS, at most TG_MAX_LOSS_ATTRS; NULL: none */
} tg_loss;

extern const tg_loss *const tg_loss_table[]; /* NULL-terminated */
extern const char *const tg_reduction_names[TG_REDUCTIONS];

/* ---- losses of the caller's own ---- */

/* All lists, one after the other: E entries. */
typedef struct tg_own_lists {
    int64_t count, E;
    const int64_t *offsets; /* (count + 1) */
    const float *scores;    /* (E,), scaled and shifted */
    const double *time;     /* (E,) */
} tg_own_lists;

/* Fills the value and gradient (E,); where it fails, with TG_E_CANCELLED and its own account of why. */
typedef tg_status (*tg_own_loss)(void *context, const tg_own_lists *lists, float *gradient, double *value,
                                 tg_error *err);

/* ---- weighted sums of losses ---- */

typedef struct tg_loss_term {
    const tg_loss *loss;
    tg_own_loss
        own; /* NULL, or called in place of loss->run, once for all lists, on the thread of the pass */
    void *context;
    double attr[TG_MAX_LOSS_ATTRS];
    tg_reduction reduction;
    int over_batch; /* all lists together are one */
    double weight;
} tg_loss_term;

typedef struct tg_losses {
    int n;
    tg_loss_term term[TG_MAX_LOSSES];
    uint64_t key; /* of draws */
} tg_losses;

/* A sum out of [{"loss": name, ...}, ...]: "weight", "reduction", "over" ("list" or "batch") and the loss's attributes,
   each of which may be left out. A name that is null stands for `own`, a loss of the caller's with a weight and no
   attributes, whose context the caller sets; own NULL: there is none. The key is 0. */
tg_status tg_losses_read(tg_losses *losses, const tg_json_value *list, tg_own_loss own, tg_error *err);

/* The term of a loss with every field at its fallback. */
tg_loss_term tg_loss_default(const tg_loss *loss);

unsigned tg_losses_need(const tg_losses *losses); /* TG_NEED_ORDER | TG_NEED_VALUE | TG_NEED_TIME */

/* Of all L entries, one after the other. */
typedef struct tg_targets {
    const int64_t *order; /* exact order: smaller = faster; NULL if no loss of the sum reads it */
    const double *value;  /* numbers: times, log-times, percentiles ...; NULL if no loss reads them */
    const float *weight;  /* sample weights >= 0; NULL: all 1 */
    const double *time;   /* measured times, for losses of the caller's own */
} tg_targets;

/* A list: a slate, a part of one, or entries from all over the batch. */
typedef struct tg_lists {
    int64_t count;
    const int64_t *offsets; /* (count + 1): list i is [offsets[i], offsets[i+1]) of the index; from 0 on */
    /* (offsets[count]) positions of entries, each at most once; NULL: consecutive, all L */
    const int64_t *index;
    const float *scale, *shift; /* (L,) or NULL: the loss sees scale * score + shift (segment training) */
    int64_t first; /* number of the first list in the whole batch (keys of draws); set by a pass */
} tg_lists;

/* Value and, in dscores (L,), gradient with respect to the scores (L,) as they were given; 0 for entries of no list.
   Same bits for any number of threads. */
tg_status tg_losses_run(const tg_losses *losses, int64_t L, const float *scores, const tg_targets *targets,
                        const tg_lists *lists, float *dscores, double *value, tg_error *err);

#endif
