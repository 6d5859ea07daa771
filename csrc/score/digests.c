#include "score/digests.h"

#include <stdio.h>
#include <string.h>

#include "io/blake2b.h"

enum { SIZE = 16, PIECE = 1 << 14 };
static const char BEFORE[] = ", \"_digests\": {";

/* A part of what is digested: its length, then its bytes. */
static void add_length(tg_blake2b *state, uint64_t length) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(length >> 8 * i);
    tg_blake2b_add(state, bytes, sizeof bytes);
}

static tg_status compare(tg_blake2b *state, const tg_json_value *expected, const char *field, tg_error *err) {
    uint8_t digest[SIZE];
    char text[2 * SIZE + 1];
    tg_blake2b_end(state, digest);
    for (int i = 0; i < SIZE; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    if (tg_json_is(expected, text)) return TG_OK;
    return tg_bad_field(err, field, "contents that have the digest in the file",
                        "the file is damaged or was changed: write it again", "others");
}

static tg_status check_tensor(const tg_safetensors *file, const tg_tensor *t, const tg_json_value *tensors,
                              tg_error *err) {
    uint8_t piece[PIECE];
    char shape[TG_TENSOR_SHAPE];
    tg_blake2b state = tg_blake2b_of(SIZE);
    const char *dtype = t->dtype == TG_DTYPE_F32   ? " float32 "
                        : t->dtype == TG_DTYPE_F64 ? " float64 "
                                                   : " int64 ";
    tg_tensor_shape(t, shape);
    add_length(&state, t->name.size + strlen(dtype) + strlen(shape));
    tg_blake2b_add(&state, t->name.bytes, t->name.size);
    tg_blake2b_add(&state, dtype, strlen(dtype));
    tg_blake2b_add(&state, shape, strlen(shape));
    add_length(&state, (uint64_t)t->size);
    for (int64_t at = 0; at < t->size;) {
        const size_t n = t->size - at < PIECE ? (size_t)(t->size - at) : PIECE;
        const tg_status status = tg_source_read(&file->source, t->offset + at, piece, n, err);
        if (status != TG_OK) return status;
        tg_blake2b_add(&state, piece, n);
        at += (int64_t)n;
    }
    return compare(&state, tg_json_find(tensors, t->name.bytes), t->name.bytes, err);
}

/* Bytes of the text before the entry of the digests, which is the last of the object; 0 if there is none. */
static size_t before_digests(tg_text text) {
    const size_t n = sizeof BEFORE - 1;
    for (size_t at = text.size < n ? 0 : text.size - n; at > 0; at--)
        if (memcmp(text.bytes + at, BEFORE, n) == 0) return at;
    return 0;
}

tg_status tg_digests_check(const tg_safetensors *file, tg_text text, const tg_json_value *root,
                           tg_error *err) {
    const tg_json_value *digests = tg_json_find(root, "_digests");
    if (digests == NULL) return TG_OK;
    const size_t n = before_digests(text);
    tg_blake2b state = tg_blake2b_of(SIZE);
    add_length(&state, n + 1);
    tg_blake2b_add(&state, text.bytes, n);
    tg_blake2b_add(&state, "}", 1);
    tg_status status = compare(&state, tg_json_find(digests, "metadata"), "metadata", err);
    for (int i = 0; status == TG_OK && i < file->count; i++)
        status = check_tensor(file, &file->tensors[i], tg_json_find(digests, "tensors"), err);
    return status;
}
