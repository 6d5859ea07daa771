/* libFuzzer target of the safetensors reader and its JSON: any bytes as a file, and as JSON. Of a file that is
   accepted, every tensor is read, and together they are the whole file. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_json(const uint8_t *data, size_t size) {
    tg_json json = tg_json_of((const char *)data, size);
    for (size_t tokens = 0;; tokens++) {
        tg_json_kind kind = tg_json_next(&json);
        if (kind == TG_JSON_ERROR || kind == TG_JSON_END) break;
        if (tokens > size || json.depth < 0 || json.depth > TG_JSON_DEPTH) abort();
        if (kind == TG_JSON_KEY || kind == TG_JSON_STRING) {
            char *text = malloc(json.size + 1);
            if (text != NULL && tg_json_text(&json, text) > json.size) abort();
            free(text);
        }
        if (kind == TG_JSON_NUMBER && tg_json_count(&json) < -1) abort();
    }
}

static void read_all(const tg_safetensors *file) {
    int64_t bytes = 0;
    for (int i = 0; i < file->count; i++) {
        const tg_tensor *t = &file->tensors[i], *same = tg_safetensors_find(file, t->name.bytes);
        if (strlen(t->name.bytes) == t->name.size && same != t) abort();
        if (t->offset < 0 || t->size < 0 || t->offset + t->size > file->source.size) abort();
        if (t->count * tg_dtype_size(t->dtype) != t->size || t->memory < t->size || t->memory > 2 * t->size)
            abort();
        bytes += t->size;
        void *to = malloc((size_t)t->memory + 1);
        tg_error err;
        if (to != NULL && tg_safetensors_read(file, t, to, &err) != TG_OK && t->dtype != TG_DTYPE_BOOL)
            abort();
        free(to);
    }
    if (bytes > file->source.size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err = {0};
    tg_safetensors file;
    if (size > 8) read_json(data + 8, size - 8);
    if (tg_safetensors_open(&file, (tg_source){-1, data, (int64_t)size}, &err) == TG_OK) read_all(&file);
    else if (err.message[0] == 0 || strchr(err.message, '\n') != NULL) abort();
    tg_safetensors_close(&file);
    return 0;
}
