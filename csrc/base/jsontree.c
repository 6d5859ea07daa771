#define _GNU_SOURCE
#include "base/jsontree.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

/* A tree being made. */
typedef struct maker {
    tg_json json;
    const char *field;
    tg_json_value *values;
    const tg_json_value **sorted; /* room for the entries of one object, to find keys given twice */
    char *
        pool; /* no larger than the text and one byte: of every key, string, number and literal at least one byte
                   that separates it from the next is not copied, which makes room for its NUL */
    int used;
    locale_t plain; /* whatever the program's is, the point is a point */
    tg_error *err;
} maker;

static tg_status wrong(maker *m, const char *problem) {
    return tg_fail_field(m->err, m->field, "JSON", "%s at its byte %lld", problem,
                         (long long)(m->json.at - m->json.start));
}

/* Check the whole text, and count its values. */
static tg_status count(maker *m, int *values) {
    for (*values = 0;;) {
        const tg_json_kind kind = tg_json_next(&m->json);
        if (kind == TG_JSON_ERROR) return wrong(m, m->json.problem);
        if (kind == TG_JSON_END) return TG_OK;
        if (kind != TG_JSON_KEY && kind != TG_JSON_CLOSE && ++*values > TG_JSON_VALUES)
            return wrong(m, "more than 2^20 values");
    }
}

/* The last key, string, number or literal, in the pool. */
static const char *take_text(maker *m, int escapes, size_t *size) {
    char *to = m->pool;
    *size = m->json.size;
    if (escapes) *size = tg_json_text(&m->json, to);
    else memcpy(to, m->json.text, m->json.size);
    to[*size] = 0;
    m->pool += *size + 1;
    return to;
}

static tg_status take_number(maker *m, tg_json_value *value) {
    const char *digits = value->text + (value->text[0] == '-');
    value->number = strtod_l(value->text, NULL, m->plain);
    if (!isfinite(value->number)) return wrong(m, "a number that float64 does not hold");
    const tg_json just = {.text = digits, .size = value->size - (size_t)(digits - value->text)};
    const int64_t whole = tg_json_count(&just); /* of -2^63 it says -1: that one counts as not whole */
    value->is_whole = whole >= 0;
    value->whole = !value->is_whole ? 0 : digits == value->text ? whole : -whole;
    return TG_OK;
}

static int by_key(const void *a, const void *b) {
    const tg_json_value *x = *(const tg_json_value *const *)a, *y = *(const tg_json_value *const *)b;
    const size_t least = x->key_size < y->key_size ? x->key_size : y->key_size;
    const int order = memcmp(x->key, y->key, least);
    return order != 0 ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

/* An object is complete: no key is there twice. */
static tg_status check_keys(maker *m, const tg_json_value *object) {
    int n = 0;
    if (object->kind != TG_JSON_OBJECT || object->count < 2) return TG_OK;
    for (const tg_json_value *v = object->first; v != NULL; v = v->next) m->sorted[n++] = v;
    qsort(m->sorted, (size_t)n, sizeof *m->sorted, by_key);
    for (int i = 1; i < n; i++)
        if (by_key(&m->sorted[i - 1], &m->sorted[i]) == 0) return wrong(m, "an object with a key twice");
    return TG_OK;
}

/* The value that begins with the last token. */
static tg_status take_value(maker *m, tg_json_kind kind, tg_json_value *value) {
    value->kind = kind;
    if (kind == TG_JSON_OBJECT || kind == TG_JSON_ARRAY) return TG_OK;
    value->text = take_text(m, kind == TG_JSON_STRING, &value->size);
    return kind == TG_JSON_NUMBER ? take_number(m, value) : TG_OK;
}

/* The second reading: all values, in the order of the text. */
static tg_status make(maker *m) {
    tg_json_value *open[TG_JSON_DEPTH + 1] = {NULL}, *last[TG_JSON_DEPTH + 1] = {NULL};
    const char *key = NULL;
    size_t key_size = 0;
    for (int depth = 0;
         ;) { /* open[depth]: the object or array we are in; last[depth]: its last entry so far */
        const tg_json_kind kind = tg_json_next(&m->json);
        tg_status status = TG_OK;
        if (kind == TG_JSON_END) return TG_OK;
        if (kind == TG_JSON_ERROR) return wrong(m, m->json.problem);
        if (kind == TG_JSON_KEY) {
            key = take_text(m, 1, &key_size);
        } else if (kind == TG_JSON_CLOSE) {
            status = check_keys(m, open[depth--]);
        } else {
            tg_json_value *value = &m->values[m->used++];
            *value = (tg_json_value){.key = key, .key_size = key_size};
            key = NULL, key_size = 0;
            if (last[depth] != NULL) last[depth]->next = value;
            else if (open[depth] != NULL) open[depth]->first = value;
            if (open[depth] != NULL) open[depth]->count++;
            last[depth] = value;
            status = take_value(m, kind, value);
            if (kind == TG_JSON_OBJECT || kind == TG_JSON_ARRAY) open[++depth] = value, last[depth] = NULL;
        }
        if (status != TG_OK) return status;
    }
}

tg_status tg_json_read(tg_json_tree *tree, const char *field, const char *text, size_t size, tg_error *err) {
    maker m = {.json = tg_json_of(text, size), .field = field, .err = err};
    int values = 0;
    *tree = (tg_json_tree){NULL, NULL};
    tg_status status = count(&m, &values);
    if (status != TG_OK) return status;
    const size_t n = (size_t)values;
    tree->block = malloc(n * (sizeof *m.values + sizeof *m.sorted) + size + 1);
    m.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (tree->block == NULL || m.plain == (locale_t)0) {
        status = tg_fail(err, TG_E_MEMORY, "no memory for %s of %d values", field, values);
    } else {
        m.values = tree->block;
        m.sorted = (const tg_json_value **)(m.values + n);
        m.pool = (char *)(m.sorted + n);
        m.json = tg_json_of(text, size);
        status = make(&m);
    }
    if (m.plain != (locale_t)0) freelocale(m.plain);
    if (status == TG_OK) tree->root = m.values;
    return status;
}

void tg_json_free(tg_json_tree *tree) {
    free(tree->block);
    *tree = (tg_json_tree){NULL, NULL};
}

const tg_json_value *tg_json_find(const tg_json_value *object, const char *key) {
    const tg_json_value wanted = {.key = key, .key_size = strlen(key)}, *const w = &wanted;
    if (object == NULL || object->kind != TG_JSON_OBJECT) return NULL;
    for (const tg_json_value *v = object->first; v != NULL; v = v->next)
        if (by_key(&v, &w) == 0) return v;
    return NULL;
}

int tg_json_is(const tg_json_value *value, const char *text) {
    return value != NULL && value->kind == TG_JSON_STRING && strlen(text) == value->size &&
           memcmp(value->text, text, value->size) == 0;
}

void tg_json_words(const tg_json_value *value, char *to, size_t size) {
    if (value == NULL) snprintf(to, size, "none");
    else if (value->kind == TG_JSON_OBJECT || value->kind == TG_JSON_ARRAY)
        snprintf(to, size, "%s of %d", value->kind == TG_JSON_OBJECT ? "an object" : "a list", value->count);
    else if (value->text == NULL) snprintf(to, size, "%.15g", value->number);
    else snprintf(to, size, value->kind == TG_JSON_STRING ? "'%.80s'" : "%.80s", value->text);
}
