#define _GNU_SOURCE
#include "search/expr.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "base/utf8.h"

/* The text that is read, and the program so far. Every function that reads a part leaves its value on the stack. */
typedef struct reader {
    const char *at, *end, *begin;
    const char *const *names;
    int n;
    tg_expr *to;
    size_t texts;   /* bytes of texts so far */
    int depth;      /* of what is within each other */
    int stack;      /* values that wait at this step */
    locale_t plain; /* where numbers have points */
    tg_error *err;
} reader;

static tg_status expression(reader *r);

/* ---- signs and words ---- */

static int letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static int digit(char c) { return c >= '0' && c <= '9'; }

static void skip(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static size_t word_length(const char *at, const char *end) {
    size_t n = 0;
    if (at < end && letter(*at))
        while (at + n < end && (letter(at[n]) || digit(at[n]))) n++;
    return n;
}

/* Whether that word comes next; if so, it is behind us. */
static int word(reader *r, const char *is) {
    skip(r);
    const size_t n = word_length(r->at, r->end);
    if (n != strlen(is) || memcmp(r->at, is, n) != 0) return 0;
    r->at += n;
    return 1;
}

/* Whether that sign comes next and is not the beginning of a longer one. */
static int sign(reader *r, const char *is) {
    static const char *const longer[] = {"**", "//", "<<", ">>", "<=", ">=", "==", "!="};
    skip(r);
    const size_t n = strlen(is), left = (size_t)(r->end - r->at);
    if (left < n || memcmp(r->at, is, n) != 0) return 0;
    for (size_t i = 0; n == 1 && left > 1 && i < sizeof longer / sizeof *longer; i++)
        if (memcmp(r->at, longer[i], 2) == 0) return 0;
    r->at += n;
    return 1;
}

/* ---- errors ---- */

/* The words that can stand in an expression, as far as there is room. */
static void known(const reader *r, char *to, size_t size) {
    size_t used = (size_t)snprintf(to, size, "known are min, max, abs and the parameters ");
    for (int i = 0; i < r->n; i++) {
        const size_t need = strlen(r->names[i]) + 8;
        if (used + need >= size) {
            snprintf(to + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(to + used, size - used, "%s%s", i > 0 ? ", " : "", r->names[i]);
    }
}

/* Refuse what stands at `at`. */
static tg_status refuse_at(reader *r, const char *at, const char *expected, const char *more) {
    char found[64] = "the end";
    int place = 1;
    for (const char *c = r->begin; c < at; c++) place += (*c & 0xc0) != 0x80;
    if (at < r->end) {
        size_t n = word_length(at, r->end), most = sizeof found - 8;
        while (digit(*at) && at + n < r->end && (letter(at[n]) || digit(at[n]))) n++;
        if (n == 0) n = tg_utf8_length(at, (size_t)(r->end - at));
        if (n == 0) n = 1;
        if (n > most)
            for (n = most; n > 0 && (at[n] & 0xc0) == 0x80;) n--;
        snprintf(found, sizeof found, "'%.*s'", (int)n, *at != 0 ? at : "?");
    }
    tg_fail(r->err, TG_E_CONFIG, "at character %d: expected %s, found %s%s%s", place, expected, found,
            more[0] != 0 ? "; " : "", more);
    if (r->err != NULL) tg_error_printable(r->err);
    return TG_E_CONFIG;
}

static tg_status refuse(reader *r, const char *expected) {
    skip(r);
    return refuse_at(r, r->at, expected, "");
}

/* ---- the program ---- */

/* There is room: no text has more steps than twice its bytes (see tg_expr_read). */
static int32_t emit(reader *r, int op, int32_t arg) {
    r->to->steps[r->to->count] = (tg_expr_step){(uint16_t)op, arg};
    return r->to->count++;
}

static tg_status push(reader *r, int op, int32_t arg) {
    if (++r->stack > TG_EXPR_STACK)
        return refuse(r, "at most 1,024 values that wait at one time, as in a list");
    emit(r, op, arg);
    return TG_OK;
}

/* A step that makes one value of `n`. */
static void join(reader *r, int op, int32_t arg, int n) {
    emit(r, op, arg);
    r->stack -= n - 1;
}

/* Let the jump at `from` lead to the next step. */
static void land(reader *r, int32_t from) { r->to->steps[from].arg = r->to->count - from - 1; }

static tg_status constant(reader *r, tg_value value) {
    r->to->constants[r->to->n_constants] = value;
    return push(r, TG_STEP_CONSTANT, r->to->n_constants++);
}

/* ---- numbers, texts, names ---- */

/* The value of digits in a base: whole, or real where int64 does not hold it. -1: a digit is missing or misplaced. */
static int whole_number(const char *at, const char *end, int base, tg_value *value) {
    uint64_t whole = 0;
    double real = 0;
    int beyond = 0, before = 0;
    for (; at < end; at++) {
        const int low = *at | 0x20, d = digit(*at)                 ? *at - '0'
                                        : low >= 'a' && low <= 'f' ? low - 'a' + 10
                                                                   : 99;
        if (*at == '_' && before) {
            before = 0;
            continue;
        }
        if (d >= base) return -1;
        before = 1;
        real = real * base + d;
        beyond = beyond || __builtin_mul_overflow(whole, (uint64_t)base, &whole) ||
                 __builtin_add_overflow(whole, (uint64_t)d, &whole) || whole > INT64_MAX;
    }
    if (!before) return -1;
    *value = beyond ? (tg_value){TG_VALUE_REAL, 0, {.real = real}}
                    : (tg_value){TG_VALUE_WHOLE, 0, {.whole = (int64_t)whole}};
    return 0;
}

/* A number with a point or an exponent. */
static int real_number(const reader *r, const char *at, const char *end, tg_value *value) {
    char digits[400], *stop;
    size_t n = 0;
    for (const char *c = at; c < end; c++) {
        if (*c == '_') {
            if (c == at || !digit(c[-1]) || c + 1 == end || !digit(c[1])) return -1;
            continue;
        }
        if (n + 1 == sizeof digits) return -1;
        digits[n++] = *c;
    }
    digits[n] = 0;
    value->kind = TG_VALUE_REAL;
    value->real = strtod_l(digits, &stop, r->plain);
    return *stop == 0 && n > 0 ? 0 : -1;
}

static tg_status number(reader *r) {
    const char *at = r->at, *end = at;
    tg_value value = {TG_VALUE_WHOLE, 0, {.whole = 0}};
    int bad, real = 0;
    const int base = *at != '0' || at + 1 == r->end ? 10
                     : (at[1] | 0x20) == 'x'        ? 16
                     : (at[1] | 0x20) == 'o'        ? 8
                     : (at[1] | 0x20) == 'b'        ? 2
                                                    : 10;
    for (; end < r->end; end++) {
        const int exponent = base == 10 && (*end | 0x20) == 'e';
        real = real || exponent || *end == '.';
        if (exponent && end + 1 < r->end && (end[1] == '+' || end[1] == '-')) end++;
        else if (!letter(*end) && !digit(*end) && *end != '.') break;
    }
    if (base != 10) bad = whole_number(at + 2 + (at + 2 < end && at[2] == '_'), end, base, &value);
    else if (real) bad = real_number(r, at, end, &value);
    else
        bad = whole_number(at, end, 10, &value) ||
              (*at == '0' && value.kind == TG_VALUE_WHOLE && value.whole != 0);
    if (bad || (value.kind == TG_VALUE_REAL && !isfinite(value.real)))
        return refuse_at(r, at, "a number such as 12, 0x1f or 2.5e-3", "");
    r->at = end;
    return constant(r, value);
}

static tg_status text(reader *r) {
    const char quote = *r->at, *first = r->at;
    char *to = r->to->texts + r->texts, *begin = to;
    for (r->at++; r->at < r->end && *r->at != quote; r->at++) {
        char c = *r->at;
        if (c == '\n' || c == '\r') return refuse_at(r, first, "a text that ends in its line", "");
        if (c == '\\') {
            static const char from[] = "\\'\"nt", plain[] = "\\'\"\n\t";
            const char *is = ++r->at < r->end && *r->at != 0 ? strchr(from, *r->at) : NULL;
            if (is == NULL)
                return refuse_at(r, r->at - 1, "a text without escapes but \\\\ \\' \\\" \\n \\t", "");
            c = plain[is - from];
        }
        *to++ = c;
    }
    if (r->at == r->end) return refuse_at(r, first, "a text that ends with its quotation mark", "");
    r->at++;
    r->texts += (size_t)(to - begin);
    return constant(r, (tg_value){TG_VALUE_TEXT, (int32_t)(to - begin), {.text = begin}});
}

/* A comma, or the sign that ends a list. *more: whether another part comes. */
static tg_status next_part(reader *r, const char *close, int *more) {
    const int comma = sign(r, ",");
    *more = 0;
    if (sign(r, close)) return TG_OK;
    *more = 1;
    return comma ? TG_OK
                 : refuse(r, close[0] == ')'   ? "',' or ')'"
                             : close[0] == ']' ? "',' or ']'"
                                               : "',' or '}'");
}

/* Parts up to the sign that ends them. */
static tg_status parts(reader *r, const char *close, int *count) {
    int more = 1;
    tg_status status = TG_OK;
    for (*count = 0; status == TG_OK && more; ++*count)
        if ((status = expression(r)) == TG_OK) status = next_part(r, close, &more);
    return status;
}

static tg_status function(reader *r, const char *at, int op) {
    int count;
    if (!sign(r, "(")) return refuse(r, "'(' behind min, max and abs");
    const char *close = op != TG_STEP_ABS && sign(r, "[") ? "]" : ")"; /* min([a, b]) too */
    tg_status status = parts(r, close, &count);
    if (status == TG_OK && close[0] == ']' && !sign(r, ")")) status = refuse(r, "')'");
    if (status != TG_OK) return status;
    if (op == TG_STEP_ABS ? count != 1 : count < 2 && close[0] == ')')
        return refuse_at(r, at,
                         op == TG_STEP_ABS ? "one number in abs(...)"
                                           : "at least two numbers in min(...) and max(...)",
                         "");
    join(r, op, count, count);
    return TG_OK;
}

static tg_status name(reader *r, size_t n) {
    static const struct {
        const char *name;
        int op;
    } functions[] = {{"min", TG_STEP_MIN}, {"max", TG_STEP_MAX}, {"abs", TG_STEP_ABS}};
    const char *at = r->at;
    for (int i = 0; i < r->n; i++)
        if (strlen(r->names[i]) == n && memcmp(r->names[i], at, n) == 0) {
            r->at += n;
            return push(r, TG_STEP_NAME, i);
        }
    for (int i = 0; i < 3; i++)
        if (word(r, functions[i].name)) return function(r, at, functions[i].op);
    const int yes = word(r, "True");
    if (yes || word(r, "False")) return constant(r, (tg_value){TG_VALUE_FLAG, 0, {.whole = yes}});
    char words[400];
    known(r, words, sizeof words);
    return refuse_at(r, at, "a parameter or a number", words);
}

/* ---- what binds, tightest first ---- */

static tg_status deeper(reader *r) {
    if (++r->depth <= TG_EXPR_DEPTH) return TG_OK;
    return refuse(r, "at most 64 parentheses and signs within each other");
}

static tg_status atom(reader *r) {
    skip(r);
    if (r->at == r->end) return refuse(r, "a parameter or a number");
    const char c = *r->at;
    const size_t n = word_length(r->at, r->end);
    if (n > 0) return name(r, n);
    if (digit(c) || (c == '.' && r->at + 1 < r->end && digit(r->at[1]))) return number(r);
    if (c == '"' || c == '\'') return text(r);
    if (c != '(') return refuse(r, "a parameter or a number");
    r->at++;
    tg_status status = expression(r);
    return status == TG_OK && !sign(r, ")") ? refuse(r, "')'") : status;
}

static tg_status primary(reader *r) {
    tg_status status = atom(r);
    while (status == TG_OK && sign(r, "[")) {
        status = expression(r);
        if (status == TG_OK && !sign(r, "]")) status = refuse(r, "']'");
        if (status == TG_OK) join(r, TG_STEP_INDEX, 0, 2);
    }
    return status;
}

/* Signs before a value, and powers, which bind tighter than the signs to their left. */
static tg_status factor(reader *r) {
    tg_status status = deeper(r);
    if (status != TG_OK) return status;
    const int op = sign(r, "-")   ? TG_STEP_NEGATE
                   : sign(r, "+") ? TG_STEP_PLUS
                   : sign(r, "~") ? TG_STEP_INVERT
                                  : -1;
    if (op >= 0) {
        if ((status = factor(r)) == TG_OK) emit(r, op, 0);
    } else if ((status = primary(r)) == TG_OK && sign(r, "**")) {
        if ((status = factor(r)) == TG_OK) join(r, TG_STEP_POW, 0, 2);
    }
    r->depth--;
    return status;
}

/* Signs between two values that bind at least as tight as `least`. */
static tg_status binary(reader *r, int least) {
    static const struct {
        const char *sign;
        int binds, op;
    } table[] = {{"|", 0, TG_STEP_OR},     {"^", 1, TG_STEP_XOR},    {"&", 2, TG_STEP_AND},
                 {"<<", 3, TG_STEP_LEFT},  {">>", 3, TG_STEP_RIGHT}, {"+", 4, TG_STEP_ADD},
                 {"-", 4, TG_STEP_SUB},    {"*", 5, TG_STEP_MUL},    {"/", 5, TG_STEP_DIV},
                 {"//", 5, TG_STEP_FLOOR}, {"%", 5, TG_STEP_MOD}};
    tg_status status = factor(r);
    for (size_t i = 0; status == TG_OK && i < sizeof table / sizeof *table; i++) {
        if (table[i].binds < least || !sign(r, table[i].sign)) continue;
        status = binary(r, table[i].binds + 1);
        join(r, table[i].op, 0, 2);
        i = (size_t)-1;
    }
    return status;
}

/* The sign of a comparison, or -1. */
static int comparison_sign(reader *r) {
    static const struct {
        const char *sign;
        int op;
    } table[] = {{"==", TG_STEP_EQ}, {"!=", TG_STEP_NE}, {"<=", TG_STEP_LE},
                 {">=", TG_STEP_GE}, {"<", TG_STEP_LT},  {">", TG_STEP_GT}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (sign(r, table[i].sign)) return table[i].op;
    if (word(r, "in")) return TG_STEP_IN;
    const char *at = r->at;
    if (word(r, "not")) {
        if (word(r, "in")) return TG_STEP_NOT_IN;
        r->at = at;
    }
    return -1;
}

/* A list behind `in`. */
static tg_status membership(reader *r, int op) {
    static const char open[][2] = {"[", "(", "{"}, close[][2] = {"]", ")", "}"};
    int count = 0, i = 0;
    skip(r);
    const char *at = r->at;
    while (i < 3 && !sign(r, open[i])) i++;
    if (i == 3) return refuse(r, "a list such as [1, 2] behind 'in'");
    if (sign(r, close[i])) return refuse_at(r, at, "a list with one entry or more", "");
    tg_status status = parts(r, close[i], &count);
    if (status != TG_OK) return status;
    if (i == 1 && count == 1) { /* (1) is no list in Python, (1,) is */
        const char *back = r->at - 1;
        while (back > at && (back[-1] == ' ' || back[-1] == '\t' || back[-1] == '\n' || back[-1] == '\r'))
            back--;
        if (back[-1] != ',') return refuse_at(r, at, "a list such as [1, 2] behind 'in'", "");
    }
    join(r, op, count, count + 1);
    return TG_OK;
}

static tg_status comparison(reader *r) {
    tg_status status = binary(r, 0);
    int32_t jumps[TG_EXPR_DEPTH];
    int links = 0, op = status == TG_OK ? comparison_sign(r) : -1;
    while (status == TG_OK && op >= 0) {
        const int list = op == TG_STEP_IN || op == TG_STEP_NOT_IN;
        if ((status = list ? membership(r, op) : binary(r, 0)) != TG_OK) return status;
        const int next = comparison_sign(r);
        if (next >= 0 && (list || links == TG_EXPR_DEPTH))
            return refuse(r, list ? "no comparison of what 'in' says; use 'and'"
                                  : "a shorter chain of comparisons");
        if (!list) join(r, op, next >= 0, next >= 0 ? 1 : 2);
        if (next >= 0) {
            jumps[links++] = emit(r, TG_STEP_FALSE_STAYS, 0);
            r->stack--;
        }
        op = next;
    }
    if (links > 0) {
        const int32_t over = emit(r, TG_STEP_JUMP, 0);
        for (int i = 0; i < links; i++) land(r, jumps[i]);
        emit(r, TG_STEP_NIP, 0);
        land(r, over);
    }
    return status;
}

static tg_status inversion(reader *r) {
    if (!word(r, "not")) return comparison(r);
    tg_status status = deeper(r);
    if (status == TG_OK) status = inversion(r);
    r->depth--;
    if (status == TG_OK) emit(r, TG_STEP_NOT, 0);
    return status;
}

static tg_status conjunction(reader *r) {
    tg_status status = inversion(r);
    while (status == TG_OK && word(r, "and")) {
        const int32_t jump = emit(r, TG_STEP_FALSE_STAYS, 0);
        r->stack--;
        if ((status = inversion(r)) == TG_OK) land(r, jump);
    }
    return status;
}

static tg_status disjunction(reader *r) {
    tg_status status = conjunction(r);
    while (status == TG_OK && word(r, "or")) {
        const int32_t jump = emit(r, TG_STEP_TRUE_STAYS, 0);
        r->stack--;
        if ((status = conjunction(r)) == TG_OK) land(r, jump);
    }
    return status;
}

static void turn(tg_expr_step *steps, int32_t n) {
    for (int32_t i = 0, j = n - 1; i < j; i++, j--) {
        const tg_expr_step step = steps[i];
        steps[i] = steps[j], steps[j] = step;
    }
}

/* The value of `a if c else b`: its steps stand as c, a, b. Jumps are relative, so steps can be moved. */
static tg_status expression(reader *r) {
    const int32_t first = r->to->count;
    tg_status status = disjunction(r);
    if (status == TG_OK && word(r, "if")) {
        const int32_t one = r->to->count - first;
        r->stack--;
        if ((status = disjunction(r)) != TG_OK) return status;
        const int32_t jump = emit(r, TG_STEP_FALSE_LEAVES, one + 1), all = r->to->count - first;
        (void)jump;
        r->stack--;
        turn(r->to->steps + first, one);
        turn(r->to->steps + first + one, all - one);
        turn(r->to->steps + first, all);
        const int32_t over = emit(r, TG_STEP_JUMP, 0);
        if (!word(r, "else")) return refuse(r, "'else' behind 'if'");
        if ((status = deeper(r)) == TG_OK) status = expression(r);
        if (status == TG_OK) land(r, over);
        r->depth--;
    }
    return status;
}

/* The parameters that occur. */
static tg_status find_reads(tg_expr *e, int n, tg_error *err) {
    unsigned char *seen = calloc((size_t)n + 1, 1);
    e->reads = malloc(((size_t)n + 1) * sizeof *e->reads);
    if (seen == NULL || e->reads == NULL) {
        free(seen);
        return tg_fail(err, TG_E_MEMORY, "no memory for a constraint");
    }
    for (int32_t i = 0; i < e->count; i++)
        if (e->steps[i].op == TG_STEP_NAME && !seen[e->steps[i].arg]) {
            seen[e->steps[i].arg] = 1;
            e->reads[e->n_reads++] = e->steps[i].arg;
        }
    free(seen);
    return TG_OK;
}

tg_status tg_expr_read(tg_expr *expr, const char *given, size_t size, const char *const *names, int n,
                       tg_error *err) {
    reader r = {
        .at = given, .begin = given, .end = given + size, .names = names, .n = n, .to = expr, .err = err};
    memset(expr, 0, sizeof *expr);
    if (size > TG_EXPR_BYTES)
        return tg_fail(err, TG_E_CONFIG, "expected at most %d bytes, found %zu; write several constraints",
                       TG_EXPR_BYTES, size);
    expr->steps = malloc((3 * size + 8) * sizeof *expr->steps);
    expr->constants = malloc((size + 1) * sizeof *expr->constants);
    expr->texts = malloc(size + 1);
    r.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (expr->steps == NULL || expr->constants == NULL || expr->texts == NULL || r.plain == (locale_t)0) {
        if (r.plain != (locale_t)0) freelocale(r.plain);
        return tg_fail(err, TG_E_MEMORY, "no memory for a constraint");
    }
    tg_status status = expression(&r);
    skip(&r);
    if (status == TG_OK && r.at < r.end)
        status = refuse_at(&r, r.at, "a sign between values, or the end",
                           *r.at == '(' ? "only min, max and abs can be called" : "");
    freelocale(r.plain);
    return status == TG_OK ? find_reads(expr, n, err) : status;
}

void tg_expr_free(tg_expr *expr) {
    free(expr->steps);
    free(expr->constants);
    free(expr->texts);
    free(expr->reads);
    memset(expr, 0, sizeof *expr);
}

size_t tg_expr_part(const char *text, size_t size) {
    size_t first = size;
    int depth = 0;
    for (size_t i = 0; i < size;) {
        const char c = text[i];
        const size_t n = word_length(text + i, text + size);
        if (digit(c)) { /* 1or 2 */
            for (i++; i < size && digit(text[i]);) i++;
        } else if (n > 0) {
            if (depth == 0 &&
                ((n == 2 && (memcmp(text + i, "or", 2) == 0 || memcmp(text + i, "if", 2) == 0))))
                return size;
            if (depth == 0 && n == 3 && memcmp(text + i, "and", 3) == 0 && first == size) first = i;
            i += n;
        } else if (c == '"' || c == '\'') {
            for (i++; i < size && text[i] != c; i++) i += text[i] == '\\';
            i++;
        } else {
            depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
            i++;
        }
    }
    return first;
}
