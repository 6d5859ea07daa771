/* Choices of an attribute, written "none|relu|gelu": the value is the position. */
#ifndef TG_WORDS_H
#define TG_WORDS_H

#include <stdio.h>
#include <string.h>

/* Copies word `i` into `to`; 0 if there are fewer words. */
static inline int tg_word(const char *choices, int i, char *to, size_t size) {
    for (; i > 0; i--) {
        choices = strchr(choices, '|');
        if (choices == NULL) return 0;
        choices++;
    }
    snprintf(to, size, "%.*s", (int)strcspn(choices, "|"), choices);
    return 1;
}

#endif
