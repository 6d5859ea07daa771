/* Columns of a schema as a model takes them: numbers and logs scaled, categories as columns of 0 and 1. */
#ifndef TG_ENCODING_H
#define TG_ENCODING_H

#include "prepare/step.h"

/* What a value of such a column has to be, if x is not: NULL where it is. A category has `values` positions; a
   negative number of them stands for a schema that may have more. */
const char *tg_column_expects(tg_column_kind kind, int values, double x);

/* Columns of one table, and their state, which a step keeps. */
typedef struct tg_encoding {
    const tg_columns *columns; /* F of them */
    const char *field;         /* of the graph, for messages */
    int most;                  /* values of a number that get a column each, at most */
    int zero_unknown;          /* categories that were not seen are 0 in all their columns, else refused */
    int64_t *count;            /* rows */
    int64_t *seen;             /* so often each value of each category, one category after the other */
    int64_t *n_levels; /* (F), 0 before the first row, most + 1 once there are more; NULL: no levels */
    double *mean, *m2; /* (F) */
    double *levels;    /* (F, most) */
} tg_encoding;

/* Columns that they become. */
int tg_encoding_width(const tg_encoding *encoding);
/* Add rows (rows, F) to the state; after the last ones comes finish. */
tg_status tg_encoding_fit(const tg_encoding *encoding, const tg_features *x, tg_error *err);
tg_status tg_encoding_finish(const tg_encoding *encoding, tg_error *err);
/* Whether numbers from a file can be a state. */
int tg_encoding_fits(const tg_encoding *encoding);
/* y: (rows, width) */
tg_status tg_encoding_apply(const tg_encoding *encoding, const tg_features *x, float *y, tg_error *err);

#endif
