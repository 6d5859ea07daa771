/* A step of preprocessing. It learns from the training graphs (fit), and later transforms the arrays of a
   graph towards the input of a model (apply). Its learnt state is named arrays, as stored in a ranker file.
   One file per step or family; program.c runs them in order. */
#ifndef TG_STEP_H
#define TG_STEP_H

#include <math.h>
#include <stdint.h>

#include "base/attr.h"
#include "configs/distinct.h"
#include "graph/prune.h"
#include "prepare/rules.h"

enum { TG_STEP_ATTRS = 6, TG_STEP_STATES = 6, TG_MAX_COLUMNS = TG_ATTR_ENTRIES };

/* An attribute: all of tg_attr up to its doc. */
#define TG_ROW(...) {__VA_ARGS__, 0, NULL, NULL}

/* The tables of features of a graph: (N,F), (1,G) and (C,T). */
typedef enum { TG_TABLE_NODE, TG_TABLE_GRAPH, TG_TABLE_CONFIG, TG_TABLES } tg_table;
extern const char *const tg_table_fields[TG_TABLES]; /* node_feat, graph_feat, config_feat */

/* A column of a schema. */
typedef struct tg_column {
    char *name;
    tg_column_kind kind;
    int n_values;
    char **values; /* (n_values), as readable text */
} tg_column;
typedef struct tg_columns {
    int n;
    tg_column *column;
    int32_t *number; /* (n), instead of columns: a list of numbers; NULL if none was given */
} tg_columns;

/* An array that a step has learnt. */
typedef struct tg_step_state {
    const char *name;
    int whole; /* int64 instead of double */
    int64_t n;
    union {
        double *f;
        int64_t *i;
        void *data;
    };
} tg_step_state;

/* A graph as stored: borrowed arrays; only their sizes have been checked, and features where `checked` says so. */
typedef struct tg_stored {
    int64_t N, E, K, F, G, C, T, X;
    const float *node_feat;      /* (N,F) */
    const uint8_t *opcode;       /* (N), or NULL */
    const int64_t *edges;        /* (E,2) */
    const int64_t *config_nodes; /* (K) */
    const float *graph_feat;     /* (G), or NULL */
    const float *config_feat;    /* (C,T), or NULL */
    const float *extra;          /* (N,X), further features of the nodes, or NULL */
    const uint8_t
        *checked[TG_TABLES]; /* the kinds whose rules the columns of a table follow; NULL: not known */
} tg_stored;

/* Identity of a graph's structure: compared as bytes. */
typedef struct tg_structure {
    int64_t N, E, K;
    tg_hash128 edges, config_nodes;
} tg_structure;

tg_structure tg_structure_of(const tg_stored *stored);

/* The result of pruning a graph: made once, used for every later pass over that graph. */
typedef struct tg_kept {
    int made;
    tg_structure of;
    tg_pruned pruned;
} tg_kept;

/* A table during preprocessing: row i is x[i * ld .. i * ld + cols). */
typedef struct tg_features {
    int64_t rows, ld;
    int cols;
    const float *x;
    float *own; /* memory of x if a step made it, else NULL */
    int finite; /* all numbers are known to be finite */
} tg_features;

/* A graph during preprocessing, from the stored arrays to a slate graph. */
typedef struct tg_draft {
    const tg_stored *from;
    unsigned tables;          /* bit t: table t is prepared; structure, opcodes and layouts with the nodes */
    int64_t N, E, K;          /* sizes after the steps so far */
    int64_t whole_N, whole_E; /* the stored graph, followed by virtual nodes made before pruning */
    const int64_t *nodes;     /* (N) their ids in it, -1 for a node made later; NULL: all of them */
    const int64_t *edges;     /* (E,2), private and checked once the structure is made */
    const int64_t *config_nodes; /* (K), as the edges */
    tg_features table[TG_TABLES];
    uint8_t *opcode;    /* (N), or NULL */
    int8_t *layout;     /* (N,6), or NULL */
    tg_kept *kept;      /* filled by pruning of the stored graph if it is not made yet */
    tg_pruned pruned;   /* result of pruning a graph with virtual nodes */
    int64_t *copied;    /* private copies of edges (whole_E,2) and config nodes of the graph before pruning */
    int64_t *grown;     /* ids and edges of a pruned graph with virtual nodes */
    int64_t *own_edges; /* memory of edges if a step made them, else NULL */
    int prunes, checks; /* counts, for tests */
} tg_draft;

/* Whether this table is wanted. */
static inline int tg_wants(const tg_draft *d, tg_table t) { return d->tables >> t & 1; }

/* Stored features (F) of node n of the draft; NULL for a node that a step made. */
static inline const float *tg_draft_stored(const tg_draft *d, int64_t n) {
    const int64_t id = d->nodes == NULL ? n : d->nodes[n];
    return id >= 0 && id < d->from->N ? d->from->node_feat + id * d->from->F : NULL;
}

/* Replace table t. tg_draft_room allocates (rows, cols), or returns NULL. Read the old table, write to the
   new memory, then pass it to tg_draft_replace with the status of the work: x is freed unless that is TG_OK.
   Returns the status. `finite`: all its numbers are known to be finite. */
float *tg_draft_room(int64_t rows, int64_t cols, tg_error *err);
tg_status tg_draft_replace(tg_draft *d, tg_table t, tg_status status, float *x, int cols, int finite);
/* Copy the rows of x to `to`, ld apart. */
void tg_features_copy(const tg_features *x, float *to, int64_t ld);

/* Make private copies of edges and config nodes on first use, with every index checked. */
tg_status tg_draft_whole(tg_draft *d, tg_error *err);

/* What is known about a graph at some place in a program. */
typedef struct tg_outline {
    int cols[TG_TABLES];    /* -1: as many as the stored graph has */
    int changed[TG_TABLES]; /* the table is no longer as stored */
    int learnt[TG_TABLES];  /* it depends on what a step has learnt, which a later one cannot learn from */
    int has_layout;
    int has_loops; /* edges were added */
} tg_outline;

/* A step in a program. */
typedef struct tg_use {
    const struct tg_prepare_step *step;
    double attr[TG_STEP_ATTRS];
    tg_columns columns[TG_STEP_ATTRS]; /* of attributes that are lists */
    int n_states;
    tg_step_state state[TG_STEP_STATES];
    int whole_configs; /* a step of the program reads features of whole configs */
    int node_features; /* columns that published graphs must have for the program */
} tg_use;

enum {
    TG_STEP_TRAINING = 1, /* for training only; carried out by the owner of the runtimes */
    TG_STEP_CONFIGS = 2,  /* reads features of whole configs */
    TG_STEP_SELECTS = 4,  /* later steps are fitted to the nodes that it keeps or makes */
    TG_STEP_CHANGES = 8,  /* likewise the features that it makes; it learns nothing itself */
    TG_STEP_CUTS = 16,    /* carried out on the prepared graph */
    TG_STEP_FURTHER =
        32 /* reads the further columns of features/further.h, which all graphs must have then */
};

typedef struct tg_prepare_step {
    const char *name, *doc;
    const tg_attr *attrs; /* TG_ATTRS, at most TG_STEP_ATTRS; NULL: none */
    unsigned flags;
    /* Checks attributes and place in the program, and asks for state with tg_step_keeps; NULL: nothing to check. */
    tg_status (*plan)(tg_use *use, const tg_outline *before, tg_error *err);
    /* Changes the outline to that after the step; `fitted`: the state is there. NULL: nothing changes. */
    void (*outline)(const tg_use *use, tg_outline *outline, int fitted);
    /* Checks whether the stored graph is acceptable; NULL: any is. */
    tg_status (*inspect)(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err);
    /* Adds one graph to the state, which is all 0 before the first; finish follows the last. NULL: learns
       nothing. After an error the state is forgotten. */
    tg_status (*fit)(tg_use *use, const tg_draft *draft, tg_error *err);
    tg_status (*finish)(tg_use *use, tg_error *err);
    /* Whether arrays from a file can be a state; they have the right lengths, and doubles are finite. */
    tg_status (*check)(const tg_use *use, tg_error *err);
    tg_status (*apply)(const tg_use *use, tg_draft *draft, tg_error *err); /* NULL: nothing to do */
} tg_prepare_step;

/* The table of steps: one line per step. Names in step lists have '-' for '_'. */
#define TG_ALL_STEPS(STEP)                                                                                   \
    STEP(prune)                                                                                              \
    STEP(dedup)                                                                                              \
    STEP(layout_digits)                                                                                      \
    STEP(standardize)                                                                                        \
    STEP(standardize_configs)                                                                                \
    STEP(scale_configs)                                                                                      \
    STEP(node_padding)                                                                                       \
    STEP(encode)                                                                                             \
    STEP(powers)                                                                                             \
    STEP(walk_encoding)                                                                                      \
    STEP(virtual_node)                                                                                       \
    STEP(log_columns)                                                                                        \
    STEP(program_columns)                                                                                    \
    STEP(range_columns)                                                                                      \
    STEP(take_columns)                                                                                       \
    STEP(dimension_flags)                                                                                    \
    STEP(mod_features)                                                                                       \
    STEP(operand_shapes)                                                                                     \
    STEP(merge_opcodes)                                                                                      \
    STEP(segments)                                                                                           \
    STEP(extra_columns)                                                                                      \
    STEP(self_loops)
#ifndef TG_STEP_LIST /* a library may be compiled with some of them */
#define TG_STEP_LIST TG_ALL_STEPS
#endif
#define TG_DECLARE_STEP(name) extern const tg_prepare_step tg_step_##name;
TG_ALL_STEPS(TG_DECLARE_STEP)
#undef TG_DECLARE_STEP

extern const tg_prepare_step *const tg_steps[]; /* NULL-terminated */
const tg_prepare_step *tg_find_step(const char *name);

/* Add the next array of the state: n doubles, or int64 if whole, all 0. The name is a constant. */
tg_status tg_step_keeps(tg_use *use, const char *name, int whole, int64_t n, tg_error *err);

/* ln(x + offset), 0 where x + offset < 1. */
static inline float tg_step_log(float x, double offset) {
    const double y = (double)x + offset;
    return y < 1 ? 0 : (float)log(y);
}

/* TG_E_DATA unless the graph has the published node features, with the further ones if a step reads them, or
   node features are not wanted. */
tg_status tg_step_published(const tg_use *use, const tg_stored *graph, unsigned tables, tg_error *err);

/* A TG_E_CONFIG about a step. */
tg_status tg_step_wrong(const tg_use *use, tg_error *err, const char *expected);

#endif
