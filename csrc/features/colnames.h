/* Names of the columns of the published schemas, in order, as patterns: size_[2 sum] is size_0, size_1 and size_sum. */
#ifndef TG_COLNAMES_H
#define TG_COLNAMES_H

#include <stddef.h>

extern const char tg_node_names[], tg_digit_names[], tg_tile_names[];

/* to(size) = the next name after `*at` in a pattern, which is read on by later calls with the same `at` and `*end`, at
   first 0; returns 0 after the last. */
typedef struct tg_spelling {
    const char *at; /* of the word that is being spelled */
    int end;        /* which of its ends is next */
} tg_spelling;
int tg_spell(tg_spelling *spelling, char *to, size_t size);

#endif
