/* libFuzzer target of the tree of JSON: any bytes as a text. Of a text that is accepted, every value is looked at, and
   there are no more than the text has bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsontree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Values below `value`, itself counted; `depth` cannot exceed what the reader allows. */
static size_t look(const tg_json_value *value, int depth) {
    size_t values = 1;
    int entries = 0;
    if (depth > TG_JSON_DEPTH + 1) abort();
    if (value->kind == TG_JSON_NUMBER) {
        if (!isfinite(value->number) || strlen(value->text) != value->size) abort();
        if (value->is_whole && (double)value->whole != value->number) abort();
    } else if (value->kind == TG_JSON_STRING || value->kind == TG_JSON_LITERAL) {
        if (value->text[value->size] != 0) abort();
    }
    for (const tg_json_value *v = value->first; v != NULL; v = v->next, entries++) {
        if ((value->kind == TG_JSON_OBJECT) != (v->key != NULL)) abort();
        if (v->key != NULL && strlen(v->key) == v->key_size && tg_json_find(value, v->key) != v) abort();
        values += look(v, depth + 1);
        if (entries > 64 && v->key != NULL) break; /* finding every key of a large object takes its square */
    }
    return values;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err = {0};
    tg_json_tree tree;
    if (tg_json_read(&tree, "metadata", (const char *)data, size, &err) == TG_OK) {
        if (look(tree.root, 1) > size) abort();
    } else if (err.message[0] == 0 || strchr(err.message, '\n') != NULL || tree.root != NULL) abort();
    tg_json_free(&tree);
    return 0;
}
