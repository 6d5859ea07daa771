/* Decoding tables of deflate's Huffman codes, used by inflate.c alone. */
#ifndef TG_HUFFMAN_H
#define TG_HUFFMAN_H

#include <stdint.h>

/* An entry of a decoding table:
     bits 0-5    bits to drop from the bit buffer: code and extra bits together
     bit  6      TG_HUFF_LITERAL: the value is a byte of output
     bit  7      TG_HUFF_SPECIAL: one of LINK, END, or (neither) a code that does not exist
     bits 8-11   length of the code alone, i.e. where the extra bits begin; of a LINK: index bits of its
                 subtable
     bits 12,13  TG_HUFF_LINK, TG_HUFF_END
     bits 16-31  literal, base length, base distance, or first entry of the subtable */
#define TG_HUFF_LITERAL 0x40u
#define TG_HUFF_SPECIAL 0x80u
#define TG_HUFF_LINK    0x1000u
#define TG_HUFF_END     0x2000u

#define TG_LITLEN_BITS 11
#define TG_DIST_BITS   8
#define TG_PRE_BITS    7
#define TG_LITLEN_SIZE 4096 /* no complete code over 288 symbols of at most 15 bits needs 2,400 */
#define TG_DIST_SIZE   1024 /* nor one over 32 symbols 420 */
#define TG_PRE_SIZE    128

enum tg_huff_kind { TG_HUFF_LITLEN, TG_HUFF_DIST, TG_HUFF_PRE };

/* table(cap) for the canonical code with lengths(n) in 0..15. Returns 0 when the lengths are not a code:
   over-subscribed, or incomplete other than by the one-code exceptions that deflate writers use. */
int tg_huff_build(uint32_t *table, int cap, enum tg_huff_kind kind, const uint8_t *lengths, int n);

#endif
