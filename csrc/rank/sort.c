#include "rank/sort.h"

enum { DIGITS = 8, RADIX = 256, SHORT = 48 };

static void insertion_sort(tg_keyed *items, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        tg_keyed item = items[i];
        int64_t j = i;
        for (; j > 0 && items[j - 1].key > item.key; j--) items[j] = items[j - 1];
        items[j] = item;
    }
}

/* Least-significant-digit radix sort. Digits in which all keys agree are skipped, so runtimes of one graph,
   which share their high bytes, take three or four passes and not eight. */
void tg_sort_keyed(tg_keyed *items, tg_keyed *scratch, int64_t n) {
    if (n <= SHORT) {
        insertion_sort(items, n);
        return;
    }
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++) differ |= items[i].key ^ items[0].key;
    tg_keyed *from = items, *to = scratch;
    for (int digit = 0; digit < DIGITS; digit++) {
        int shift = 8 * digit;
        if ((differ >> shift & 0xff) == 0) continue;
        int64_t start[RADIX] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) start[from[i].key >> shift & 0xff]++;
        for (int value = 0; value < RADIX; value++) {
            int64_t count = start[value];
            start[value] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) to[start[from[i].key >> shift & 0xff]++] = from[i];
        tg_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}
