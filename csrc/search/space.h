/* A space of configs: parameters with their values, and constraints. A config is a row of codes: the number of each
   parameter's value, (P,) int32.

   Parameters that constraints connect are a group. Of every group there is a tree: its levels are parameters, its nodes
   the choices so far that no constraint forbids ("chain of trees", Hellsten et al., BaCO, 2023). Here a level is an array
   of nodes that know their parents, so that a leaf drawn uniformly is a feasible config drawn uniformly. Where a tree
   would have more nodes than the budget it ends earlier: every node of its last level then has as many continuations as
   any other, so that drawing a node, then the rest, and starting anew when a constraint forbids it, is uniform too.

   Instead of constraints there can be a table: exactly its rows are feasible. */
#ifndef TG_SPACE_H
#define TG_SPACE_H

#include "base/cancel.h"
#include "search/expr.h"
#include "search/rowset.h"

enum {
    TG_CSPACE_NODES = 1 << 20, /* of a group's tree, unless another budget is set */
    TG_CSPACE_PARAMS = 4096,
    TG_CSPACE_CONSTRAINTS = 4096
};

typedef enum tg_axis_kind { TG_AXIS_LIST, TG_AXIS_RANGE, TG_AXIS_ORDER } tg_axis_kind;

typedef struct tg_axis {
    const char *name;
    tg_axis_kind kind;
    int32_t n;              /* values */
    const tg_value *values; /* of a list (n,) */
    int64_t low, step;      /* of a range: value i is low + i step */
    int32_t elements;       /* of permutations, of which there are n, in lexicographic order */
    int ordered;            /* numbers: some values are next to each other */
    int log;                /* the logarithm is what a surrogate sees */
    int32_t *
        by_value; /* of an ordered list: codes from the smallest value, and where each code is in that order */
    int32_t *place;
} tg_axis;

/* What a constraint that is no text says of a config, whose parameters it reads have codes: 1 holds, 0 does not, -1
   stop (the callee knows why). */
typedef int (*tg_cspace_call)(void *context, int32_t constraint, const int32_t *code);

/* As it was given. */
typedef struct tg_constraint {
    const char *text; /* NULL: the callable; then `reads` says which parameters (n_reads,) */
    size_t size;
    const int32_t *reads;
    int32_t n_reads;
    const char *name; /* for messages */
} tg_constraint;

/* A part of a constraint that can be checked on its own. */
typedef struct tg_cspace_test {
    tg_expr expr;
    const int32_t *reads;
    int32_t n_reads, of; /* of which constraint */
    int called;
    int64_t removed; /* partial configs that it alone removed when the tree was made */
} tg_cspace_test;

typedef struct tg_cspace_level {
    int32_t param;
    int32_t *tests; /* those that this parameter completes (n_tests,) */
    int32_t n_tests;
    int32_t *code, *parent; /* (nodes,) where the tree has this level */
    int32_t nodes;
} tg_cspace_level;

typedef struct tg_cspace_group {
    tg_cspace_level *levels;
    int32_t m, depth; /* levels; those of the tree */
    int whole;        /* no tests below the tree */
    int64_t nodes;    /* of the last level of the tree; 1 without one */
    int64_t count;    /* feasible choices, if whole */
    double rest;      /* continuations of a node, before tests */
} tg_cspace_group;

typedef struct tg_cspace {
    tg_axis *params;
    int32_t P;
    tg_constraint *given;
    tg_cspace_test *tests;
    int32_t n_given, n_tests;
    tg_cspace_group *groups;
    int32_t n_groups;
    int64_t total;       /* feasible configs if known and below 2^62, else -1 */
    const int32_t *rows; /* a table (n_rows, P) */
    int64_t n_rows;
    tg_rowset set;
    tg_cspace_call call;
    void *context;
} tg_cspace;

/* Make a space, whose params, given, rows, call and context are set; they stay the caller's and must outlive it. The
   others are zero. A constraint that cannot be read, or constraints that no config meets, are a TG_E_CONFIG. Free also
   after an error. */
tg_status tg_cspace_open(tg_cspace *space, int64_t budget, tg_cancel *cancel, tg_error *err);
void tg_cspace_free(tg_cspace *space);

/* Value of a code. */
tg_value tg_axis_value(const tg_axis *param, int32_t code);

/* The permutations of k as codes: element i of permutation `code` is (result >> 4 i) & 15, and back. */
uint64_t tg_order_of(int32_t code, int32_t k);
int32_t tg_code_of_order(uint64_t order, int32_t k);

/* Whether each row of codes (n, P) is feasible. Codes outside of 0..n-1 are not. */
tg_status tg_cspace_feasible(const tg_cspace *space, const int32_t *codes, int64_t n, uint8_t *feasible,
                             tg_cancel *cancel, tg_error *err);

/* TG_OK for codes (P,) in range that are feasible; else a TG_E_CONFIG with the message "constraint ... to hold", words
   for what was expected. */
tg_status tg_cspace_require(const tg_cspace *space, const int32_t *code, tg_error *err);

/* Feasible config number `rank` of the `total`, if that is known. */
void tg_cspace_unrank(const tg_cspace *space, int64_t rank, int32_t *code);

/* Up to n distinct feasible configs, codes (n, P), uniformly; *m: how many. Fewer only where there are no others, or
   none was found in a long time. The first of n are those of fewer. */
tg_status tg_cspace_sample(const tg_cspace *space, int64_t n, uint64_t seed, int32_t *codes, int64_t *m,
                           tg_cancel *cancel, tg_error *err);

/* Number of feasible configs and its standard error, from draws; exact (error 0) where trees are whole. */
tg_status tg_cspace_estimate(const tg_cspace *space, double *size, double *error, tg_cancel *cancel,
                             tg_error *err);

/* Feasible configs next to one: *rows (*m, P), to be freed. Each parameter takes another value (of more than
   TG_CSPACE_NEAR values those 1, 2, 4 ... away; with `adjacent`, of numbers, the next smaller and larger alone);
   permutations swap two elements. Where there is none, two parameters of a group change. Of a table the nearest rows by the number of parameters that differ. */
enum { TG_CSPACE_NEAR = 256 };
tg_status tg_cspace_neighbours(const tg_cspace *space, const int32_t *code, int adjacent, int32_t **rows,
                               int64_t *m, tg_cancel *cancel, tg_error *err);

/* Numbers that describe configs, for surrogates: columns of a parameter, and their values for codes (n, P): to (n, F) of
   all parameters one after the other. Codes must be in range. */
int32_t tg_axis_columns(const tg_axis *param);
void tg_cspace_columns(const tg_cspace *space, const int32_t *codes, int64_t n, double *to);

/* A config that is filled in, of the files of this room. */
typedef struct tg_cspace_point {
    int32_t *code;
    tg_value *value;
} tg_cspace_point;

int tg_cspace_point_open(tg_cspace_point *point, const tg_cspace *space); /* 0: no memory */
void tg_cspace_point_free(tg_cspace_point *point);
static inline void tg_cspace_set(const tg_cspace *space, tg_cspace_point *point, int32_t param,
                                 int32_t code) {
    point->code[param] = code;
    point->value[param] = tg_axis_value(&space->params[param], code);
}
/* 1, 0, or -1 with `err`. */
int tg_cspace_holds(const tg_cspace *space, const tg_cspace_test *test, const tg_cspace_point *point,
                    tg_error *err);
/* All the tests of a level: -1 they hold, -2 an error, else the number in the list of the first that does not. */
int32_t tg_cspace_fails(const tg_cspace *space, const tg_cspace_level *level, const tg_cspace_point *point,
                        tg_error *err);
/* Set the choices of a node of the tree's last level. */
void tg_cspace_set_node(const tg_cspace *space, const tg_cspace_group *group, int64_t node,
                        tg_cspace_point *point);
/* The trees of all groups. */
tg_status tg_cspace_plant(tg_cspace *space, int64_t budget, tg_cancel *cancel, tg_error *err);

#endif
