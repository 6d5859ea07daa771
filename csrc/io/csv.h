/* Rows of a Kaggle submission, one after another: "ID,index;index;..." below the header "ID,TopConfigs". A row is
   checked as far as it can be without knowing its graph, in time and memory of its own length. What is wrong with a
   row is part of the row, not an error, so that a file's problems can all be listed. */
#ifndef TG_CSV_H
#define TG_CSV_H

#include "io/source.h"

#define TG_CSV_LINE        (8 << 20) /* bytes; the longest row in the data, of 100,000 indices, has 0.7 MB */
#define TG_CSV_TILE_PLACES 5

typedef enum tg_row_state {
    TG_ROW_GOOD,
    TG_ROW_UNREADABLE, /* `problem` is about the text; `id` is NULL if it is about the ID too */
    TG_ROW_WRONG       /* readable, but no ranking: an index out of range, or twice */
} tg_row_state;

typedef struct tg_row {
    int64_t line;
    const char *id; /* id_size bytes of UTF-8 */
    size_t id_size;
    const int64_t *indices; /* indices(count); NULL when unreadable */
    int64_t count, high;    /* the largest index, or -1 */
    tg_row_state state;
    char problem[640];
} tg_row;

typedef struct tg_csv {
    tg_source source;
    const char *const *collections; /* of n_collections: what an ID may begin with, before ":name" */
    int n_collections;
    int64_t line, read; /* lines taken; bytes of the source taken into the buffer */
    char *text;         /* the buffer: text[start..end) is still to be used */
    size_t start, end, room, searched;
    int64_t *indices;
    uint64_t *seen;
    size_t index_room, seen_room;
    int stopped;
} tg_csv;

/* Begin to read `source`, which must outlive it, as the names in `collections`. Close also after an error. */
void tg_csv_open(tg_csv *csv, tg_source source, const char *const *collections, int n_collections);
void tg_csv_close(tg_csv *csv);

/* The next row, valid until the one after it; `*more` is 0 at the end. Line 1 comes only if it is not the header.
   An index list is a permutation of 0..count-1, or for IDs that begin with "tile:" five or more different indices. */
tg_status tg_csv_next(tg_csv *csv, tg_row *row, int *more, tg_error *err);

#endif
