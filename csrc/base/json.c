#include "base/json.h"

#include <string.h>

#include "base/utf8.h"

/* What may come next. */
enum { VALUE, VALUE_OR_CLOSE, KEY_OR_CLOSE, KEY, COMMA_OR_CLOSE, NOTHING };

tg_json tg_json_of(const char *text, size_t size) {
    return (tg_json){.start = text, .at = text, .end = text + size, .text = text, .expects = VALUE};
}

static tg_json_kind fail(tg_json *j, const char *problem) {
    if (j->problem == NULL) j->problem = problem;
    return TG_JSON_ERROR;
}

static void skip_blanks(tg_json *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) j->at++;
}

static int digit(const tg_json *j) { return j->at < j->end && *j->at >= '0' && *j->at <= '9'; }

/* The value of four hexadecimal digits at from(n), or -1. */
static int hex4(const char *from, ptrdiff_t n) {
    int value = 0;
    if (n < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int c = from[i], lower = c | 32;
        int v = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
        if (v < 0) return -1;
        value = value * 16 + v;
    }
    return value;
}

/* Past the escape at `j->at` (a backslash). */
static const char *escape(tg_json *j) {
    if (j->end - j->at < 2) return "text without an end";
    char c = j->at[1];
    j->at += 2;
    if (c != 'u') return c != 0 && strchr("\"\\/bfnrt", c) != NULL ? NULL : "an unknown escape in a text";
    int unit = hex4(j->at, j->end - j->at);
    if (unit < 0) return "an incomplete \\u escape";
    j->at += 4;
    if (unit < 0xd800 || unit > 0xdfff) return NULL;
    int low =
        j->end - j->at > 2 && j->at[0] == '\\' && j->at[1] == 'u' ? hex4(j->at + 2, j->end - j->at - 2) : -1;
    if (unit > 0xdbff || low < 0xdc00 || low > 0xdfff) return "half of a surrogate pair in a text";
    j->at += 6;
    return NULL;
}

/* A string in quotes into j->text. */
static const char *quoted(tg_json *j) {
    j->text = ++j->at;
    while (j->at < j->end) {
        unsigned char c = (unsigned char)*j->at;
        if (c == '"') {
            j->size = (size_t)(j->at++ - j->text);
            return NULL;
        }
        if (c < 0x20) return "a control character in a text";
        if (c == '\\') {
            const char *problem = escape(j);
            if (problem != NULL) return problem;
        } else {
            size_t n = tg_utf8_length(j->at, (size_t)(j->end - j->at));
            if (n == 0) return "text that is not UTF-8";
            j->at += n;
        }
    }
    return "text without an end";
}

static const char *number(tg_json *j) {
    j->text = j->at;
    if (*j->at == '-') j->at++;
    if (!digit(j)) return "a number without digits";
    if (*j->at == '0') j->at++;
    else
        while (digit(j)) j->at++;
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        if (!digit(j)) return "a number without digits";
        while (digit(j)) j->at++;
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        j->at++;
        if (j->at < j->end && (*j->at == '+' || *j->at == '-')) j->at++;
        if (!digit(j)) return "a number without digits";
        while (digit(j)) j->at++;
    }
    j->size = (size_t)(j->at - j->text);
    return NULL;
}

static const char *literal(tg_json *j) {
    static const char *const words[] = {"true", "false", "null"};
    j->text = j->at;
    for (int i = 0; i < 3; i++) {
        j->size = strlen(words[i]);
        if ((size_t)(j->end - j->at) >= j->size && memcmp(j->at, words[i], j->size) == 0) {
            j->at += j->size;
            return NULL;
        }
    }
    return "something that is not a value";
}

static tg_json_kind value_done(tg_json *j, tg_json_kind kind, const char *problem) {
    if (problem != NULL) return fail(j, problem);
    j->expects = j->depth > 0 ? COMMA_OR_CLOSE : NOTHING;
    return kind;
}

static tg_json_kind value(tg_json *j) {
    char c = *j->at;
    if (c == '{' || c == '[') {
        if (j->depth == TG_JSON_DEPTH) return fail(j, "values nested too deep");
        j->open[j->depth++] = c;
        j->at++;
        j->expects = c == '{' ? KEY_OR_CLOSE : VALUE_OR_CLOSE;
        return c == '{' ? TG_JSON_OBJECT : TG_JSON_ARRAY;
    }
    if (c == '"') return value_done(j, TG_JSON_STRING, quoted(j));
    if (c == '-' || digit(j)) return value_done(j, TG_JSON_NUMBER, number(j));
    return value_done(j, TG_JSON_LITERAL, literal(j));
}

static tg_json_kind key(tg_json *j) {
    if (*j->at != '"') return fail(j, "something that is no key");
    const char *problem = quoted(j);
    if (problem != NULL) return fail(j, problem);
    skip_blanks(j);
    if (j->at == j->end || *j->at != ':') return fail(j, "a key without a colon");
    j->at++;
    j->expects = VALUE;
    return TG_JSON_KEY;
}

tg_json_kind tg_json_next(tg_json *j) {
    if (j->problem != NULL) return TG_JSON_ERROR;
    skip_blanks(j);
    if (j->at == j->end) return j->expects == NOTHING ? TG_JSON_END : fail(j, "an end in the middle");
    if (j->expects == NOTHING) return fail(j, "something behind the end");
    if (j->expects == COMMA_OR_CLOSE && *j->at == ',') {
        j->at++;
        j->expects = j->open[j->depth - 1] == '{' ? KEY : VALUE;
        skip_blanks(j);
        if (j->at == j->end) return fail(j, "an end in the middle");
    } else if (j->expects != VALUE && j->expects != KEY && (*j->at == '}' || *j->at == ']')) {
        if (*j->at != (j->open[j->depth - 1] == '{' ? '}' : ']')) return fail(j, "the wrong kind of bracket");
        j->at++;
        j->depth--;
        return value_done(j, TG_JSON_CLOSE, NULL);
    }
    if (j->expects == VALUE || j->expects == VALUE_OR_CLOSE) return value(j);
    if (j->expects == KEY || j->expects == KEY_OR_CLOSE) return key(j);
    return fail(j, "a comma is missing");
}

size_t tg_json_text(const tg_json *j, char *to) {
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *at = j->text, *end = at + j->size;
    char *start = to;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
        } else if (at[1] != 'u') {
            *to++ = means[strchr(plain, at[1]) - plain];
            at += 2;
        } else {
            uint32_t unit = (uint32_t)hex4(at + 2, end - at - 2);
            at += 6;
            if (unit >= 0xd800 && unit <= 0xdbff) {
                unit = 0x10000 + ((unit - 0xd800) << 10) + ((uint32_t)hex4(at + 2, end - at - 2) - 0xdc00);
                at += 6;
            }
            to += tg_utf8_put(unit, to);
        }
    }
    return (size_t)(to - start);
}

int64_t tg_json_count(const tg_json *j) {
    int64_t result = 0;
    for (size_t i = 0; i < j->size; i++)
        if (j->text[i] < '0' || j->text[i] > '9' || __builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, j->text[i] - '0', &result))
            return -1;
    return j->size > 0 ? result : -1;
}

int tg_json_skip(tg_json *j, tg_json_kind first) {
    if (first != TG_JSON_OBJECT && first != TG_JSON_ARRAY) return first != TG_JSON_ERROR;
    for (int outside = j->depth - 1; j->depth > outside;)
        if (tg_json_next(j) == TG_JSON_ERROR) return 0;
    return 1;
}
