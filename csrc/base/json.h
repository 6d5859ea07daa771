/* Strict JSON (RFC 8259), token by token, for headers of files: no recursion, no memory of its own, nesting of at
   most TG_JSON_DEPTH, text checked to be UTF-8, no lone surrogates. The caller interprets the tokens, and
   checks that no key comes twice. */
#ifndef TG_JSON_H
#define TG_JSON_H

#include <stddef.h>
#include <stdint.h>

#define TG_JSON_DEPTH 64

typedef enum tg_json_kind {
    TG_JSON_ERROR, /* `problem` says what; the same again from now on */
    TG_JSON_END,   /* the one value is complete, and nothing but blanks follows */
    TG_JSON_OBJECT,
    TG_JSON_ARRAY,
    TG_JSON_CLOSE, /* of the object or array opened last */
    TG_JSON_KEY,   /* its colon is read too */
    TG_JSON_STRING,
    TG_JSON_NUMBER,
    TG_JSON_LITERAL /* true, false, null */
} tg_json_kind;

typedef struct tg_json {
    const char *start, *at, *end;
    const char
        *text;   /* the last key, string (between its quotes, escapes as they stand), number or literal */
    size_t size; /* of `text` */
    const char *problem;
    int depth, expects;
    char open[TG_JSON_DEPTH];
} tg_json;

/* Begin to read text(size), which must stay. */
tg_json tg_json_of(const char *text, size_t size);

tg_json_kind tg_json_next(tg_json *json);

/* to(json->size) = the last key or string without escapes. Returns its length, which is never larger. */
size_t tg_json_text(const tg_json *json, char *to);

/* The last number, if it is a whole one >= 0 that int64 holds, written without fraction or exponent; else -1. */
int64_t tg_json_count(const tg_json *json);

/* After the token `first` of a value: read the rest of this value. 0 after an error. */
int tg_json_skip(tg_json *json, tg_json_kind first);

#endif
