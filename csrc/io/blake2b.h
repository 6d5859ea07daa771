/* BLAKE2b (RFC 7693) without a key: the digest that files of tensors carry of their contents. */
#ifndef TG_BLAKE2B_H
#define TG_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define TG_BLAKE2B_BLOCK 128 /* bytes */

typedef struct tg_blake2b {
    uint64_t h[8], count; /* bytes compressed so far */
    uint8_t block[TG_BLAKE2B_BLOCK];
    size_t used, size; /* bytes in `block`; bytes of the digest, at most 64 */
} tg_blake2b;

tg_blake2b tg_blake2b_of(size_t size);
void tg_blake2b_add(tg_blake2b *state, const void *data, size_t n);

/* digest(size); nothing may be added afterwards. */
void tg_blake2b_end(tg_blake2b *state, uint8_t *digest);

#endif
