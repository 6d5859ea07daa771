/* Shared by losses over pairs. A pair is a slower and a faster entry of a list; equal ones make none. */
#ifndef TG_PAIRS_H
#define TG_PAIRS_H

#include "base/scratch.h"
#include "rank/loss.h"
#include "rank/sort.h"

/* items: entries by order, fastest first, equal ones by number; group[p]: how many are strictly faster than the one at
   place p, which is the first place of its equals. */
typedef struct tg_ordered {
    tg_keyed *items, *spare; /* (n,) each; spare is free for other use */
    int32_t *group;          /* (n,) */
} tg_ordered;

/* tg_loss.reads of a loss that reads the order alone, whatever its attributes. */
tg_reads tg_reads_order(const double *attr);

tg_ordered tg_take_ordered(tg_scratch *c, int64_t n);

/* Fills it; returns the sum of the weights of all pairs. */
double tg_order_list(const tg_list *list, tg_ordered by);

static inline double tg_weight(const tg_list *list, int64_t i) {
    return list->weight == NULL ? 1 : (double)list->weight[i];
}

/* Sum of the weights of the entries. */
double tg_total_weight(const tg_list *list);

/* What the sum over the pairs is multiplied with; `pairs`: the sum of their weights. */
double tg_reduce_pairs(const tg_list *list, double pairs);

/* The same for a sum over entries. */
double tg_reduce_entries(const tg_list *list);

/* Pairs with a logistic cost, row by row. A row adds its pairs' gradients to g (n,) and returns their value; room
   (n,) is its own. Rows are shared out among chunks fixed by n, so that long lists use all threads. */
typedef double tg_pair_row(const void *context, int64_t row, double *g, double *room);
int64_t tg_pair_room(int64_t n); /* doubles */
double tg_pair_rows(int64_t n, int64_t rows, tg_pair_row *row, const void *context, double *memory);

#endif
