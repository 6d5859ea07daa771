/* Columns of a schema as a model takes them: numbers and logs scaled, categories as columns of 0 and 1. */
#ifndef TG_ENCODING_H
#define TG_ENCODING_H

#include "prepare/step.h"

/* Columns of one table, and their state, stored in a step. */
typedef struct tg_encoding {
    const tg_columns *columns; /* F of them */
    const char *field;         /* of the graph, for messages */
    int most;                  /* most values of a number that get a column each */
    int zero_unknown;          /* unseen categories are 0 in all their columns, else refused */
    int checked;               /* values are known to follow the rules of the columns */
    int64_t *count;            /* rows */
    int64_t *seen;             /* counts of each value of each category, one category after the other */
    int64_t *n_levels; /* (F), 0 before the first row, most + 1 once there are more; NULL: no levels */
    double *mean, *m2; /* (F) */
    double *levels;    /* (F, most) */
} tg_encoding;

/* Number of columns after encoding. */
int tg_encoding_width(const tg_encoding *encoding);
/* Add rows (rows, F) to the state; call finish after the last ones. */
tg_status tg_encoding_fit(const tg_encoding *encoding, const tg_features *x, tg_error *err);
tg_status tg_encoding_finish(const tg_encoding *encoding, tg_error *err);
/* Whether numbers from a file can be a state. */
int tg_encoding_fits(const tg_encoding *encoding);
/* y: (rows, width) */
tg_status tg_encoding_apply(const tg_encoding *encoding, const tg_features *x, float *y, tg_error *err);

#endif
