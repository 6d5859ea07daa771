/* A whole text in JSON as a tree, for the metadata of files. The tokens are those of json.h: strict, nested at most
   TG_JSON_DEPTH deep, without recursion. The text is read twice, first to check and count it, so that the tree is one
   block whose size follows from the content, and not from a number in it. */
#ifndef TG_JSONTREE_H
#define TG_JSONTREE_H

#include "base/status.h"
#include "base/json.h"

#define TG_JSON_VALUES (1 << 20) /* of one text */

/* A value; `key` only of an entry of an object. Texts have a NUL behind them, which they may also contain. */
typedef struct tg_json_value {
    tg_json_kind kind; /* TG_JSON_OBJECT, _ARRAY, _STRING, _NUMBER or _LITERAL */
    int is_whole;      /* a number without fraction and exponent that int64 holds: `whole` */
    const char *key,
        *text; /* text: of a string without escapes, of a number (may be NULL) or literal as it stands */
    size_t key_size, size;
    double number; /* the nearest, finite */
    int64_t whole;
    int count; /* entries of an object or array, in order: first, first->next ... */
    const struct tg_json_value *first, *next;
} tg_json_value;

typedef struct tg_json_tree {
    const tg_json_value *root;
    void *block;
} tg_json_tree;

/* The tree of text(size), which it does not need afterwards. Not JSON, a key twice in one object, a number that
   float64 does not hold, or more than TG_JSON_VALUES values: a TG_E_DATA about `field` that says at which byte. Free
   also after an error. */
tg_status tg_json_read(tg_json_tree *tree, const char *field, const char *text, size_t size, tg_error *err);
void tg_json_free(tg_json_tree *tree);

/* The entry of that name, or NULL; also NULL if this is not an object. */
const tg_json_value *tg_json_find(const tg_json_value *object, const char *key);

/* The value for a message: a list or object by its length, "none" for NULL. */
void tg_json_words(const tg_json_value *value, char *to, size_t size);

/* Whether the value (or NULL) is that string. */
int tg_json_is(const tg_json_value *value, const char *text);

#endif
