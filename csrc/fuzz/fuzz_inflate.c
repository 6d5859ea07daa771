/* libFuzzer target of inflate alone: the bytes are one deflate stream. What comes out is compared with
   nothing (there is no zlib here); AddressSanitizer and the assertions on sizes are the test. */
#include <stdlib.h>

#include "io/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct sum {
    int64_t bytes;
    uint8_t all;
} sum;

static tg_status take(void *context, const uint8_t *data, size_t n, int *stop, tg_error *err) {
    (void)stop, (void)err;
    sum *s = context;
    for (size_t i = 0; i < n; i++) s->all |= data[i];
    s->bytes += (int64_t)n;
    return TG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    int64_t promised = data[0] | (int64_t)data[1] << 8 | (int64_t)data[2] << 16;
    tg_source source = {-1, data + 3, (int64_t)size - 3};
    tg_inflate *s = tg_inflate_new();
    tg_error err;
    sum got = {0, 0};
    tg_status status = tg_inflate_run(s, &source, "fuzz", 0, source.size, promised, take, &got, NULL, &err);
    if (got.bytes > promised || (status == TG_OK && got.bytes != promised)) abort();
    tg_inflate_free(s);
    return 0;
}
