#include "base/attr.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tg_attr_word(const char *choices, int i, char *to, size_t size) {
    for (; i > 0; i--) {
        choices = strchr(choices, '|');
        if (choices == NULL) return 0;
        choices++;
    }
    snprintf(to, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return 1;
}

int tg_attr_choice(const char *choices, const char *word) {
    char name[64];
    for (int i = 0; choices != NULL && tg_attr_word(choices, i, name, sizeof name); i++)
        if (strcmp(name, word) == 0) return i;
    return -1;
}

const char *tg_attr_kind_name(tg_attr_kind kind) {
    static const char *const names[TG_ATTR_KINDS] = {
#define TG_ATTR_NAME(id, name) name,
        TG_ATTR_LIST(TG_ATTR_NAME)
#undef TG_ATTR_NAME
    };
    return names[kind];
}

int tg_attr_kind_of(const char *name) {
    int kind = TG_ATTR_KINDS - 1;
    while (kind >= 0 && strcmp(tg_attr_kind_name((tg_attr_kind)kind), name) != 0) kind--;
    return kind;
}

int tg_attrs_count(const tg_attr *attrs, int most) {
    int n = 0;
    while (attrs != NULL && n < most && attrs[n].name != NULL) n++;
    return n;
}

/* ---- errors ---- */

tg_status tg_attr_wrong(tg_error *err, tg_status code, const char *owner, const char *what,
                        const char *expected, const tg_json_value *found) {
    char text[96], field[96];
    tg_json_words(found, text, sizeof text);
    snprintf(field, sizeof field, "%.60s%s%.32s", owner, owner[0] != 0 ? ": " : "", what);
    return tg_refuse(err, code, field, expected, "%s", text);
}

/* "one of none, relu, gelu" */
static void list_choices(const char *choices, char *to, size_t size) {
    size_t used = (size_t)snprintf(to, size, "one of ");
    for (; *choices != 0 && used + 3 < size; choices++) {
        if (*choices == '|') to[used++] = ',';
        to[used++] = *choices == '|' ? ' ' : *choices;
    }
    to[used] = 0;
}

/* The fewest digits from 15 on that give the number. */
static void write_number(double x, char *to, size_t size) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(to, size, "%.*g", digits, x);
        if (strtod(to, NULL) == x) return;
    }
}

void tg_attr_expect(const tg_attr *attr, char *to, size_t size) {
    static const char *const nouns[TG_ATTR_KINDS] = {[TG_ATTR_REAL] = "a number",
                                                     [TG_ATTR_INT] = "a whole number",
                                                     [TG_ATTR_FLAG] = "true or false",
                                                     [TG_ATTR_TEXT] = "a string"};
    const int ranged = attr->low > -DBL_MAX || attr->high < DBL_MAX;
    if (attr->kind == TG_ATTR_CHOICE) list_choices(attr->choices, to, size);
    else if (attr->kind == TG_ATTR_ITEMS) snprintf(to, size, "a list of at most %d entries", TG_ATTR_ENTRIES);
    else if (attr->kind == TG_ATTR_NUMBERS)
        snprintf(to, size, "a list of at most %d whole numbers in %.0f..%.0f", TG_ATTR_ENTRIES, attr->low,
                 attr->high);
    else if (attr->kind == TG_ATTR_FLAG || attr->kind == TG_ATTR_TEXT || !ranged)
        snprintf(to, size, "%s", nouns[attr->kind]);
    else {
        char low[32], high[32];
        write_number(attr->low, low, sizeof low);
        write_number(attr->high, high, sizeof high);
        snprintf(to, size, "%s in %s..%s", nouns[attr->kind], low, high);
    }
}

/* ---- values ---- */

static int in_range(const tg_attr *attr, const tg_json_value *value) {
    const double x = value->number;
    return value->kind == TG_JSON_NUMBER && x >= attr->low && x <= attr->high;
}

/* The first entry that a list cannot have, the list itself if it is none, or NULL. */
static const tg_json_value *wrong_entry(const tg_attr *attr, const tg_json_value *list) {
    if (list->kind != TG_JSON_ARRAY || list->count > TG_ATTR_ENTRIES) return list;
    for (const tg_json_value *v = list->first; v != NULL && attr->kind == TG_ATTR_NUMBERS; v = v->next)
        if (!in_range(attr, v) || !v->is_whole) return v;
    return NULL;
}

static int take_flag(const tg_json_value *given, double *number) {
    if (given->kind == TG_JSON_LITERAL) *number = given->text[0] == 't';
    else *number = given->number;
    return given->kind == TG_JSON_LITERAL ? given->text[0] != 'n'
                                          : given->kind == TG_JSON_NUMBER && (*number == 0 || *number == 1);
}

tg_status tg_attr_read(const tg_attr *attr, const tg_json_value *given, const char *owner, tg_status code,
                       tg_attr_value *value, tg_error *err) {
    const tg_json_value *found = given;
    int fine = 0;
    *value = (tg_attr_value){.number = given->number};
    switch (attr->kind) {
    case TG_ATTR_REAL: fine = in_range(attr, given); break;
    case TG_ATTR_INT: fine = in_range(attr, given) && given->is_whole; break;
    case TG_ATTR_FLAG: fine = take_flag(given, &value->number); break;
    case TG_ATTR_TEXT:
        fine = given->kind == TG_JSON_STRING;
        value->list = given;
        break;
    case TG_ATTR_CHOICE:
        value->number = given->kind == TG_JSON_STRING ? tg_attr_choice(attr->choices, given->text) : -1;
        fine = value->number >= 0;
        break;
    default:
        found = wrong_entry(attr, given);
        fine = found == NULL;
        value->list = given;
    }
    if (fine) return TG_OK;
    char expected[192];
    tg_attr_expect(attr, expected, sizeof expected);
    return tg_attr_wrong(err, code, owner, attr->name, expected, found);
}

/* The first entry of the object under another name than those of the attributes, or NULL. */
static const tg_json_value *unknown_entry(const tg_attr *attrs, int n, const tg_json_value *object,
                                          const char *skip) {
    for (const tg_json_value *v = object->first; v != NULL; v = v->next) {
        int a = 0;
        while (a < n && strcmp(attrs[a].name, v->key) != 0) a++;
        if ((a == n || strlen(v->key) != v->key_size) && (skip == NULL || strcmp(skip, v->key) != 0))
            return v;
    }
    return NULL;
}

static tg_status refuse_entry(const tg_attr *attrs, int n, const char *key, const char *owner, tg_status code,
                              tg_error *err) {
    char known[256] = "none", field[80];
    size_t used = 0;
    for (int a = 0; a < n && used < sizeof known; a++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", a > 0 ? ", " : "only ",
                                 attrs[a].name);
    snprintf(field, sizeof field, "%.60s%sattributes", owner, owner[0] != 0 ? ": " : "");
    return tg_refuse(err, code, field, known, "'%.60s'", key);
}

tg_status tg_attrs_read(const tg_attr *attrs, int most, const tg_json_value *object, const char *skip,
                        const char *owner, tg_status code, tg_attr_value *values, tg_error *err) {
    const int n = tg_attrs_count(attrs, most);
    if (object != NULL && object->kind != TG_JSON_OBJECT)
        return tg_attr_wrong(err, code, owner, "attributes", "an object of names and values", object);
    const tg_json_value *other = object == NULL ? NULL : unknown_entry(attrs, n, object, skip);
    if (other != NULL) return refuse_entry(attrs, n, other->key, owner, code, err);
    for (int a = 0; a < n; a++) {
        const tg_json_value *given = tg_json_find(object, attrs[a].name);
        values[a] = (tg_attr_value){.number = attrs[a].fallback};
        if (given == NULL && attrs[a].required)
            return tg_attr_wrong(err, code, owner, attrs[a].name, "a value", NULL);
        if (given == NULL) continue;
        const tg_status status = tg_attr_read(&attrs[a], given, owner, code, &values[a], err);
        if (status != TG_OK) return status;
    }
    return TG_OK;
}
