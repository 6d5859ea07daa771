/* libFuzzer target of the npz reader: any bytes as a file. Reads every array, as raw bytes and, when it has
   the shape of one, as config digits. Build and run it with csrc/fuzz/run.sh. */
#include <stdlib.h>

#include "io/crc.h"
#include "io/npz.h"

#define MAX_ARRAY (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_member(tg_npz *npz, const tg_member *member) {
    tg_error err;
    tg_npy npy;
    if (tg_npz_header(npz, member, &npy, &err) != TG_OK) return;
    int64_t bytes = npy.count * npy.type.itemsize;
    if (bytes > MAX_ARRAY) return; /* as max_bytes does */
    uint8_t *raw = malloc((size_t)bytes + 1);
    if (raw != NULL) tg_npz_read(npz, member, &npy, raw, &err);
    free(raw);
    int8_t *digits = malloc((size_t)npy.count + 1);
    if (digits != NULL) tg_npz_read_digits(npz, member, &npy, digits, &err);
    free(digits);
    int64_t rows = npy.ndim > 0 ? npy.shape[0] : 0, U;
    if (rows > MAX_ARRAY / 32) return;
    int64_t *first = malloc((size_t)rows * 16 + 1);
    digits = malloc((size_t)npy.count + 1);
    if (digits != NULL && first != NULL)
        tg_npz_read_distinct(npz, member, &npy, digits, first, first + rows, &U, &err);
    free(digits);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tg_error err;
    tg_npz npz;
    if (tg_crc32(0, data, size) != tg_crc32_tables(0, data, size)) abort();
    if (tg_npz_open(&npz, (tg_source){-1, data, (int64_t)size}, NULL, &err) == TG_OK)
        for (int i = 0; i < npz.archive.count; i++) read_member(&npz, &npz.archive.members[i]);
    tg_npz_close(&npz);
    return 0;
}
