/* UTF-8 as the Unicode standard defines it: shortest forms only, no surrogates, at most U+10FFFF. */
#ifndef TG_UTF8_H
#define TG_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins at(n), n >= 1; 0 if there is none. */
static inline size_t tg_utf8_length(const char *at, size_t n) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) return 1;
    size_t length = b[0] >= 0xc2 && b[0] <= 0xdf   ? 2
                    : b[0] >= 0xe0 && b[0] <= 0xef ? 3
                    : b[0] >= 0xf0 && b[0] <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((b[i] & 0xc0) != 0x80) return 0;
    if (b[0] == 0xe0 && b[1] < 0xa0) return 0;
    if (b[0] == 0xed && b[1] > 0x9f) return 0;
    if (b[0] == 0xf0 && b[1] < 0x90) return 0;
    if (b[0] == 0xf4 && b[1] > 0x8f) return 0;
    return length;
}

/* to(4) = `code` (no surrogate); returns how many bytes. */
static inline size_t tg_utf8_put(uint32_t code, char *to) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((0xf00u >> n & 0xff) | code);
    return n;
}

#endif
