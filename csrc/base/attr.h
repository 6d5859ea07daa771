/* Declared attributes. Ops, losses, steps of preprocessing, optimizers and schedules all declare theirs as rows of
   tg_attr. The values come as JSON, from a ranker's file or from a caller, and attr.c alone checks them. */
#ifndef TG_ATTR_H
#define TG_ATTR_H

#include "base/jsontree.h"
#include "base/status.h"

/* A finite number, a whole number, true or false, or one of `choices` ("none|log": the value is the position);
   any string; a list of whole numbers, or one whose items are the declarer's business. */
#define TG_ATTR_LIST(A)                                                                                      \
    A(REAL, "real")                                                                                          \
    A(INT, "int")                                                                                            \
    A(FLAG, "flag") A(CHOICE, "choice") A(TEXT, "text") A(NUMBERS, "numbers") A(ITEMS, "list")
typedef enum {
#define TG_ATTR_KIND(id, name) TG_ATTR_##id,
    TG_ATTR_LIST(TG_ATTR_KIND)
#undef TG_ATTR_KIND
        TG_ATTR_KINDS
} tg_attr_kind;

enum { TG_ATTR_ENTRIES = 65536 }; /* of a list, at most */

typedef struct tg_attr {
    const char *name;
    tg_attr_kind kind;
    int required;
    double fallback, low, high; /* fallback NAN: none; low..high: of a number, and of those in a list */
    const char *choices, *doc;
    size_t offset;              /* of ops: where it stands in their own structure */
    const char *choice, *param; /* of ops: a step has `param` only with this choice; NULL: no parameter */
} tg_attr;

/* All that something declares; a row without a name ends them. */
#define TG_ATTRS(...)                                                                                        \
    (const tg_attr[]) {                                                                                      \
        __VA_ARGS__, { .name = NULL }                                                                        \
    }

/* The value of an attribute in a text: a number, or a string or list that was checked to be one. */
typedef struct tg_attr_value {
    double number;
    const tg_json_value *list; /* or string; NULL: left out */
} tg_attr_value;

/* The values of the attributes `attrs` (NULL, at most `most`, or up to a name NULL) out of an object, NULL for none.
   `skip` names an entry that is not one of them; NULL: none. Wrong ones, missing ones and unknown ones are errors of
   `code` about `owner`, such as "linear" or "" where the caller says it, that say what was expected and what was found. */
tg_status tg_attrs_read(const tg_attr *attrs, int most, const tg_json_value *object, const char *skip,
                        const char *owner, tg_status code, tg_attr_value *values, tg_error *err);

/* One value. */
tg_status tg_attr_read(const tg_attr *attr, const tg_json_value *given, const char *owner, tg_status code,
                       tg_attr_value *value, tg_error *err);

/* What the attribute takes, in words; a range of all finite numbers is not named. */
void tg_attr_expect(const tg_attr *attr, char *to, size_t size);

/* The name of a kind, and the kind of a name, or -1. */
const char *tg_attr_kind_name(tg_attr_kind kind);
int tg_attr_kind_of(const char *name);

/* An error of `code`: "owner: what: expected ..., found ..."; `found` NULL: nothing. */
tg_status tg_attr_wrong(tg_error *err, tg_status code, const char *owner, const char *what,
                        const char *expected, const tg_json_value *found);

/* How many attributes are declared; the position of a word in choices, or -1. */
int tg_attrs_count(const tg_attr *attrs, int most);
int tg_attr_choice(const char *choices, const char *word);

/* Copies word `i` of choices into `to`; 0 if there are fewer words. */
int tg_attr_word(const char *choices, int i, char *to, size_t size);

#endif
