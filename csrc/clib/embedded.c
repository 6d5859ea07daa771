#include "clib/clib.h"

#include <limits.h>
#include <stddef.h>

#include "io/crc.h"

enum { MOST = 16 << 20 }; /* values, tensors */

static tg_status damaged(tg_error *err, const char *what) {
    return tg_fail_field(err, what, "those that `tpugraphs embed` has written", "others; write them again");
}

/* `size` bytes from `at` on, and a NUL behind them. */
static int is_text(const tg_embedded *e, uint32_t at, uint32_t size) {
    return at < e->texts_size && size < e->texts_size - at && e->texts[at + size] == 0;
}

static tg_status check(const tg_embedded *e, tg_error *err) {
    if (e->version != TG_EMBEDDED)
        return tg_fail_field(err, "version", "1: write it again for this library", "%u", e->version);
    if (e->values < 1 || e->values > MOST || e->tensors > MOST || e->value == NULL || e->texts == NULL ||
        (e->tensors > 0 && (e->tensor == NULL || e->data == NULL)) || e->data_size > INT64_MAX)
        return damaged(err, "sizes");
    uint32_t sum = tg_crc32(0, e->data, (size_t)e->data_size);
    sum = tg_crc32(sum, (const uint8_t *)e->texts, e->texts_size);
    return sum == e->checksum ? TG_OK : damaged(err, "contents");
}

/* The tree of values: those that a value holds come after it, so that there is no circle. */
static tg_status take_values(const tg_embedded *e, tg_json_value *to, tg_error *err) {
    for (uint32_t i = 0; i < e->values; i++) {
        const tg_embedded_value *v = &e->value[i];
        if (v->kind < TG_JSON_OBJECT || v->kind > TG_JSON_LITERAL || v->count > MOST ||
            (v->first != 0 && (v->first <= i || v->first >= e->values)) ||
            (v->next != 0 && (v->next <= i || v->next >= e->values)) || !is_text(e, v->key, v->key_size) ||
            !is_text(e, v->text, v->text_size))
            return damaged(err, "values");
        to[i] = (tg_json_value){.kind = (tg_json_kind)v->kind, .is_whole = v->whole, .whole = v->integer};
        to[i].number = v->whole ? (double)v->integer : v->number;
        to[i].key = e->texts + v->key, to[i].key_size = v->key_size;
        to[i].text = v->kind == TG_JSON_NUMBER ? NULL : e->texts + v->text, to[i].size = v->text_size;
        to[i].first = v->first == 0 ? NULL : &to[v->first];
        to[i].next = v->next == 0 ? NULL : &to[v->next];
        to[i].count = (int)v->count;
    }
    return TG_OK;
}

static tg_status take_tensors(const tg_embedded *e, tg_safetensors *file, tg_error *err) {
    static const tg_dtype kinds[] = {TG_DTYPE_F32, TG_DTYPE_F64, TG_DTYPE_I64};
    for (uint32_t i = 0; i < e->tensors; i++) {
        const tg_embedded_tensor *from = &e->tensor[i];
        tg_tensor *t = &file->tensors[i];
        if (from->kind > 2 || from->dimensions < 1 || from->dimensions > 2 || from->rows > INT_MAX ||
            from->columns > INT_MAX || !is_text(e, from->name, from->name_size))
            return damaged(err, "tensors");
        *t = (tg_tensor){.dtype = kinds[from->kind], .ndim = (int)from->dimensions};
        t->name = (tg_text){e->texts + from->name, from->name_size};
        t->shape[0] = (int64_t)from->rows, t->shape[1] = (int64_t)from->columns;
        t->count = t->shape[0] * (t->ndim == 2 ? t->shape[1] : 1);
        t->memory = t->size = t->count * tg_dtype_size(t->dtype);
        t->offset = (int64_t)from->offset;
        if (from->offset > e->data_size || (uint64_t)t->size > e->data_size - from->offset)
            return damaged(err, "tensors");
    }
    return TG_OK;
}

static tg_status make(tg_ranker *r, const tg_embedded *e, tg_error *err) {
    tg_status status = check(e, err);
    if (status != TG_OK) return status;
    tg_json_value *values = calloc(e->values, sizeof *values);
    tg_safetensors file = {.source = {-1, e->data, (int64_t)e->data_size}, .count = (int)e->tensors};
    file.tensors = calloc((size_t)e->tensors + 1, sizeof *file.tensors);
    if (values == NULL || file.tensors == NULL) status = tg_fail(err, TG_E_MEMORY, "no memory for a ranker");
    if (status == TG_OK) status = take_values(e, values, err);
    if (status == TG_OK) status = take_tensors(e, &file, err);
    if (status == TG_OK) status = tg_ranker_make(r, &file, values, err);
    free(file.tensors);
    free(values);
    return status;
}

tg_status tg_ranker_open_embedded(const tg_embedded *embedded, const tg_options *options, tg_ranker **ranker,
                                  tg_message *message) {
    tg_embedded e;
    tg_scope scope;
    if (ranker == NULL) return tg_argument(message, "ranker", "a place for the ranker");
    *ranker = NULL;
    if (embedded == NULL || !tg_take_struct(&e, sizeof e, embedded, sizeof e))
        return tg_argument(message, "embedded", "what `tpugraphs embed` has written");
    tg_status status = tg_ranker_new(options, ranker, message);
    if (status != TG_OK) return status;
    tg_scope_begin(&scope, &(*ranker)->heap, &(*ranker)->spread, 1);
    status = make(*ranker, &e, &scope.err);
    if (status != TG_OK) status = tg_in_file("embedded", status, &scope.err);
    status = tg_scope_end(&scope, status, message);
    if (status != TG_OK) tg_ranker_close(*ranker), *ranker = NULL;
    return status;
}
