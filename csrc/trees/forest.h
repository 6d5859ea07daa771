/* Boosted trees: read from the text that LightGBM writes of a model, checked so that no text leads outside of them, and
   summed over rows of numbers. Sums are added in the order of the trees, in double: they have LightGBM's bits. */
#ifndef TG_FOREST_H
#define TG_FOREST_H

#include <stddef.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/status.h"

enum {                       /* of a split */
       TG_SPLIT_SET = 1,     /* left: whole numbers in a set; else numbers up to the threshold */
       TG_SPLIT_MISSING = 2, /* what is missing goes left */
       TG_SPLIT_ZERO = 4     /* 0 counts as missing */
};

typedef struct tg_split {
    union {
        double threshold;
        struct {
            uint32_t first, count; /* words of the forest, a bit per number */
        } set;
    } at;
    int32_t left, right; /* a split, or ~leaf */
    int32_t column;
    uint32_t rule;
} tg_split;

/* Splits and leaves of all trees one after the other: tree t has the splits first[t]..first[t + 1] - 1, its root first,
   and its leaves begin at first[t] + t, since it has one more of them. A split's children come after it. */
typedef struct tg_forest {
    int32_t trees, depth, width; /* most splits on a way down; columns of a row */
    int average;                 /* what the objective makes of a sum is made of the mean of the trees */
    double sigmoid;              /* of the objective "binary", its factor; else 0 */
    int32_t *first;              /* (trees + 1) */
    tg_split *split;
    float *gain; /* of each split, 0 if it says none */
    double *leaf;
    uint32_t *word;
    void *block;
} tg_forest;

/* The model in text(size), whose columns are columns[0..n) of the rows it will be given, ascending and below `width`. A TG_E_DATA names field and line. Free also after an error. */
tg_status tg_forest_read(tg_forest *forest, const char *text, size_t size, const int64_t *columns, int64_t n,
                         int32_t width, tg_error *err);
void tg_forest_free(tg_forest *forest);

/* sums(n) of the first `trees` trees (or all, if there are fewer) for rows(n, cols); columns from `cols` on count as
   missing. They are finite, and float32 holds them. Only TG_E_CANCELLED. */
tg_status tg_forest_sums(const tg_forest *forest, const float *rows, int64_t n, int64_t cols, int32_t trees,
                         double *sums, tg_cancel *cancel, tg_error *err);

/* Chances in place of the sums(n) of a forest with a sigmoid. */
void tg_forest_chances(const tg_forest *forest, int32_t trees, double *sums, int64_t n);

/* scores(n): the mean chance of rows(n, cols) next to each of others(m, cols), m >= 1, of a forest with a sigmoid whose
   rows are [one | one - other]. Only TG_E_CANCELLED and TG_E_MEMORY. */
tg_status tg_forest_against(const tg_forest *forest, const float *rows, int64_t n, const float *others,
                            int64_t m, int64_t cols, int32_t trees, float *scores, tg_cancel *cancel,
                            tg_error *err);

/* gains(n): what the splits of the first `trees` trees gained on each of the columns[0..n) of tg_forest_read. */
void tg_forest_gains(const tg_forest *forest, int32_t trees, const int64_t *columns, int64_t n,
                     double *gains);

#endif
