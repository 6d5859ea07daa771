/* Constraints as text: an expression in a part of Python's language, read once into a short program and then evaluated
   for many configs. Nothing in a text is ever executed by Python.

   It may have: the names of parameters; numbers, texts, True and False; + - * / // % ** & | ^ ~ << >>; comparisons, also
   in chains; `in` and `not in` a list; and, or, not; `a if c else b`; min, max, abs; parentheses; `layout[0]` of a
   permutation. Results are Python's, with two exceptions: whole numbers that int64 does not hold go on as float64, and
   what Python refuses for these values (a division by zero, say) is TG_EXPR_UNDEFINED. */
#ifndef TG_EXPR_H
#define TG_EXPR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    TG_EXPR_BYTES = 1 << 14, /* of a text, at most */
    TG_EXPR_DEPTH = 64,      /* parentheses within each other, and the like */
    TG_EXPR_STACK = 1024,    /* values that wait at one time */
    TG_EXPR_ORDER = 12       /* elements of a permutation */
};

typedef enum tg_value_kind {
    TG_VALUE_FLAG, /* whole: 0 or 1 */
    TG_VALUE_WHOLE,
    TG_VALUE_REAL,
    TG_VALUE_TEXT,
    TG_VALUE_ORDER /* a permutation: element i is (order >> 4 i) & 15 */
} tg_value_kind;

typedef struct tg_value {
    tg_value_kind kind;
    int32_t size; /* bytes of the text, elements of the permutation */
    union {
        int64_t whole;
        double real;
        const char *text;
        uint64_t order;
    };
} tg_value;

typedef struct tg_expr_step {
    uint16_t op;
    int32_t arg;
} tg_expr_step;

/* A text that was read. */
typedef struct tg_expr {
    tg_expr_step *steps;
    tg_value *constants;
    char *texts;
    int32_t count;  /* steps */
    int32_t *reads; /* the parameters that occur, each once (n_reads,) */
    int32_t n_reads, n_constants;
} tg_expr;

typedef enum tg_expr_end {
    TG_EXPR_DONE,
    TG_EXPR_UNDEFINED, /* a division by zero, a root of a negative number, a number beyond float64 */
    TG_EXPR_KINDS      /* kinds of values that do not go together: `err` says which */
} tg_expr_end;

/* Read text(size) over the parameters called names (n,). A TG_E_CONFIG says at which character what was found. Free
   also after an error. The expression does not need the text afterwards. */
tg_status tg_expr_read(tg_expr *expr, const char *text, size_t size, const char *const *names, int n,
                       tg_error *err);
void tg_expr_free(tg_expr *expr);

/* The length of the part of text(size) before the next `and` that stands outside of all parentheses; all of it if there
   is none, or an `or`, an `if` or a `not` over more than its part stands there too. The parts of a text that all hold are
   the text that holds. */
size_t tg_expr_part(const char *text, size_t size);

/* The value of the expression where values (n,) are those of the parameters. */
tg_expr_end tg_expr_run(const tg_expr *expr, const tg_value *values, tg_value *result, tg_error *err);

/* Whether Python's `if` takes it as true. */
int tg_value_true(const tg_value *value);

/* -1, 0, 1: the order of two numbers or of two texts; 2 where there is none (nan, other kinds). */
int tg_value_order(const tg_value *a, const tg_value *b);

/* A number as a double; 0 for texts and permutations. */
double tg_value_real(const tg_value *value);

/* The steps of programs: shared by the two files of expressions. */
enum {
    TG_STEP_CONSTANT, /* push constants[arg] */
    TG_STEP_NAME,     /* push the value of parameter arg */
    TG_STEP_NEGATE,
    TG_STEP_PLUS,
    TG_STEP_INVERT,
    TG_STEP_NOT,
    TG_STEP_ABS,
    TG_STEP_ADD, /* from here on of two values */
    TG_STEP_SUB,
    TG_STEP_MUL,
    TG_STEP_DIV,
    TG_STEP_FLOOR,
    TG_STEP_MOD,
    TG_STEP_POW,
    TG_STEP_AND,
    TG_STEP_OR,
    TG_STEP_XOR,
    TG_STEP_LEFT,
    TG_STEP_RIGHT,
    TG_STEP_INDEX,
    TG_STEP_EQ, /* comparisons; arg 1: the right value stays below the result, for a chain */
    TG_STEP_NE,
    TG_STEP_LT,
    TG_STEP_LE,
    TG_STEP_GT,
    TG_STEP_GE,
    TG_STEP_IN,     /* whether the value below arg values is one of them */
    TG_STEP_NOT_IN, /* the contrary */
    TG_STEP_MIN,    /* of arg values */
    TG_STEP_MAX,
    TG_STEP_JUMP,         /* over arg steps */
    TG_STEP_FALSE_STAYS,  /* false: over arg steps; else drop the value */
    TG_STEP_TRUE_STAYS,   /* true: the same */
    TG_STEP_FALSE_LEAVES, /* drop the value; was it false, over arg steps */
    TG_STEP_NIP           /* drop the value below the last */
};

#endif
