#include "io/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/utf8.h"

#define HEADER "ID,TopConfigs"
#define CHUNK  (64 << 10)
#define DIGITS 10 /* of an index */

void tg_csv_open(tg_csv *csv, tg_source source, const char *const *collections, int n_collections) {
    *csv = (tg_csv){.source = source, .collections = collections, .n_collections = n_collections};
}

void tg_csv_close(tg_csv *csv) {
    free(csv->text);
    free(csv->indices);
    free(csv->seen);
    *csv = (tg_csv){0};
}

/* Room for `n` items of `size` bytes in `*items`, contents kept; n is bounded by the length of a line. */
static tg_status reserve(void **items, size_t *room, size_t n, size_t size, tg_error *err) {
    if (n <= *room) return TG_OK;
    size_t more = n > 2 * *room ? n : 2 * *room;
    void *larger = realloc(*items, more * size);
    if (larger == NULL) return tg_fail(err, TG_E_MEMORY, "no memory for a row of a CSV file");
    *items = larger;
    *room = more;
    return TG_OK;
}

/* The next line without its end: text(*size) in the buffer, NULL at the end of the file. One of more than
   TG_CSV_LINE bytes is cut to one byte more than that. */
static tg_status next_line(tg_csv *csv, char **text, size_t *size, tg_error *err) {
    for (;;) {
        size_t have = csv->end - csv->start;
        char *from = csv->text == NULL ? NULL : csv->text + csv->start;
        char *found = have > csv->searched ? memchr(from + csv->searched, '\n', have - csv->searched) : NULL;
        csv->searched = have;
        size_t length = found != NULL ? (size_t)(found - from) + 1 : have;
        if (found != NULL || have > TG_CSV_LINE || csv->read == csv->source.size) {
            length = length > TG_CSV_LINE + 1 ? TG_CSV_LINE + 1 : length;
            *text = have > 0 ? from : NULL, *size = length;
            csv->start += length, csv->searched = 0;
            return TG_OK;
        }
        if (csv->start > 0) memmove(csv->text, from, have);
        csv->start = 0, csv->end = have;
        int64_t left = csv->source.size - csv->read;
        size_t wanted = have + (left < CHUNK ? (size_t)left : CHUNK);
        tg_status status = reserve((void **)&csv->text, &csv->room, wanted, 1, err);
        if (status != TG_OK) return status;
        size_t some = (size_t)left < csv->room - have ? (size_t)left : csv->room - have;
        status = tg_source_read(&csv->source, csv->read, csv->text + have, some, err);
        if (status != TG_OK) return status;
        csv->read += (int64_t)some, csv->end += some;
    }
}

/* quoted(room) = at most `most` bytes of text(n) in quotes, on one line, cut between characters. */
static const char *quote(char *quoted, size_t room, const char *text, size_t n, size_t most) {
    size_t used = 0;
    quoted[used++] = '\'';
    for (size_t i = 0; i < n && i < most && used + 8 < room;) {
        size_t length = tg_utf8_length(text + i, n - i);
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f || c == '\'' || c == '\\' || length == 0) {
            const char *escaped = c == '\t'   ? "\\t"
                                  : c == '\r' ? "\\r"
                                  : c == '\'' ? "\\'"
                                  : c == '\\' ? "\\\\"
                                              : NULL;
            used += (size_t)(escaped != NULL ? snprintf(quoted + used, room - used, "%s", escaped)
                                             : snprintf(quoted + used, room - used, "\\x%02x", c));
            i++;
        } else {
            memcpy(quoted + used, text + i, length);
            used += length, i += length;
        }
    }
    quoted[used++] = '\'';
    quoted[used] = 0;
    return quoted;
}

static int is_utf8(const char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        uint64_t word;
        if (size - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        size_t n = tg_utf8_length(text + i, size - i);
        if (n == 0) return 0;
        i += n;
    }
    return 1;
}

/* White space in the sense of Unicode, beyond ASCII. */
static int is_wide_space(uint32_t c) {
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Whether id(size) is a collection, a colon and a name without white space, control characters, or , ; : " */
static int is_id(const tg_csv *csv, const char *id, size_t size) {
    for (int k = 0; k < csv->n_collections; k++) {
        size_t n = strlen(csv->collections[k]);
        if (size <= n + 1 || memcmp(id, csv->collections[k], n) != 0 || id[n] != ':') continue;
        for (size_t i = n + 1; i < size;) {
            size_t length = tg_utf8_length(id + i, size - i);
            unsigned char c = (unsigned char)id[i];
            if (c <= 0x20 || c == 0x7f || c == ',' || c == ';' || c == ':' || c == '"') return 0;
            if (length > 1 && is_wide_space(tg_utf8_get(id + i, length))) return 0;
            i += length;
        }
        return 1;
    }
    return 0;
}

static void unreadable(tg_row *row) { row->state = TG_ROW_UNREADABLE; }

static void bad_id(const tg_csv *csv, tg_row *row, const char *id, size_t size) {
    char quoted[200];
    unreadable(row);
    int used =
        snprintf(row->problem, sizeof row->problem, "ID %s is not <collection>:<name> with a collection of ",
                 quote(quoted, sizeof quoted, id, size, 80));
    for (int k = 0; k < csv->n_collections && used > 0 && (size_t)used < sizeof row->problem; k++)
        used += snprintf(row->problem + used, sizeof row->problem - (size_t)used, "%s%s", k == 0 ? "" : ", ",
                         csv->collections[k]);
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Say why text(n) is not a list of indices. */
static void bad_indices(tg_row *row, const char *text, size_t n) {
    char quoted[120];
    unreadable(row);
    const char *from = text, *end = text + n;
    while (from < end && (unsigned char)*from <= ' ') from++;
    while (end > from && (unsigned char)end[-1] <= ' ') end--;
    for (const char *s = ", \t|:"; n > 0 && *s != 0; s++)
        if (memchr(from, *s, (size_t)(end - from)) != NULL) {
            snprintf(row->problem, sizeof row->problem, "indices must be joined by ';', found %s",
                     quote(quoted, sizeof quoted, s, 1, 1));
            return;
        }
    for (const char *at = text; at <= text + n;) {
        const char *stop = at;
        size_t digits = 0;
        while (stop < text + n && *stop != ';') digits += (size_t)is_digit(*stop++);
        size_t length = (size_t)(stop - at);
        if (n == 0) {
            snprintf(row->problem, sizeof row->problem, "no indices");
        } else if (length == 0) {
            snprintf(row->problem, sizeof row->problem, "an index is empty: ';' too many");
        } else if (digits < length || length > DIGITS) {
            snprintf(row->problem, sizeof row->problem, "%s is not a config index (digits only)",
                     quote(quoted, sizeof quoted, at, length, 40));
        } else {
            at = stop + 1;
            continue;
        }
        return;
    }
}

/* Indices of text(n) into csv->indices; their number, or -1 if it is not a list of indices. There is room for n. */
static int64_t parse_indices(const tg_csv *csv, const char *text, size_t n, int64_t *high) {
    int64_t count = 0;
    const char *at = text, *end = text + n;
    for (*high = -1;; at++) {
        const char *first = at;
        int64_t value = 0;
        while (at < end && is_digit(*at) && at - first < DIGITS) value = value * 10 + (*at++ - '0');
        if (at == first || (at < end && *at != ';')) return -1;
        csv->indices[count++] = value;
        if (value > *high) *high = value;
        if (at == end) return count;
    }
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Say which index comes more than once. The indices are in no use any more and are sorted for it. */
static void repeated(tg_csv *csv, tg_row *row) {
    int64_t n = 1, i = 1;
    qsort(csv->indices, (size_t)row->count, sizeof *csv->indices, ascending);
    while (i < row->count && csv->indices[i] != csv->indices[i - 1]) i++;
    while (i < row->count && csv->indices[i] == csv->indices[i - 1]) i++, n++;
    row->state = TG_ROW_WRONG;
    snprintf(row->problem, sizeof row->problem, "index %lld appears %lld times, expected once",
             (long long)csv->indices[i - 1], (long long)n);
}

/* Different indices, whatever they are. */
static tg_status check_distinct(tg_csv *csv, tg_row *row, tg_error *err) {
    size_t n = (size_t)row->count, different = 1;
    if (n > 64) { /* sorted behind the row's own, which stay as they are */
        tg_status status =
            reserve((void **)&csv->indices, &csv->index_room, 2 * n, sizeof *csv->indices, err);
        if (status != TG_OK) return status;
        int64_t *sorted = csv->indices + n;
        row->indices = csv->indices;
        memcpy(sorted, csv->indices, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, ascending);
        for (size_t i = 1; i < n; i++) different &= sorted[i] != sorted[i - 1];
    } else {
        for (size_t i = 1; i < n; i++)
            for (size_t k = 0; k < i; k++) different &= csv->indices[i] != csv->indices[k];
    }
    if (!different) repeated(csv, row);
    return TG_OK;
}

/* A permutation of 0..count-1. */
static tg_status check_permutation(tg_csv *csv, tg_row *row, tg_error *err) {
    int64_t n = row->count, last = n - 1;
    if (row->high > last) {
        row->state = TG_ROW_WRONG;
        snprintf(row->problem, sizeof row->problem,
                 "index %lld is out of range 0..%lld (%lld indices, graph of %lld configs)",
                 (long long)row->high, (long long)last, (long long)n, (long long)n);
        return TG_OK;
    }
    size_t words = (size_t)n / 64 + 1;
    tg_status status = reserve((void **)&csv->seen, &csv->seen_room, words, sizeof *csv->seen, err);
    if (status != TG_OK) return status;
    memset(csv->seen, 0, words * sizeof *csv->seen);
    for (int64_t i = 0; i < n; i++) csv->seen[csv->indices[i] / 64] |= (uint64_t)1 << csv->indices[i] % 64;
    int64_t different = 0;
    for (size_t w = 0; w < words; w++) different += __builtin_popcountll(csv->seen[w]);
    if (different < n) repeated(csv, row);
    return TG_OK;
}

static tg_status parse_row(tg_csv *csv, tg_row *row, const char *text, size_t size, tg_error *err) {
    const char *comma = size > 0 ? memchr(text, ',', size) : NULL;
    if (comma == NULL) {
        char quoted[20] = "none";
        for (const char *s = "\t |;"; size > 0 && *s != 0; s++)
            if (memchr(text, *s, size) != NULL) {
                quote(quoted, sizeof quoted, s, 1, 1);
                break;
            }
        unreadable(row);
        if (size == 0) snprintf(row->problem, sizeof row->problem, "empty line");
        else
            snprintf(row->problem, sizeof row->problem, "ID and indices must be separated by ',', found %s",
                     quoted);
        return TG_OK;
    }
    size_t id_size = (size_t)(comma - text), n = size - id_size - 1;
    if (!is_id(csv, text, id_size)) {
        bad_id(csv, row, text, id_size);
        return TG_OK;
    }
    row->id = text, row->id_size = id_size;
    tg_status status =
        reserve((void **)&csv->indices, &csv->index_room, n / 2 + 1, sizeof *csv->indices, err);
    if (status != TG_OK) return status;
    row->count = parse_indices(csv, comma + 1, n, &row->high);
    if (row->count < 0) {
        row->count = 0, row->high = -1;
        bad_indices(row, comma + 1, n);
        return TG_OK;
    }
    row->indices = csv->indices;
    if (row->count >= TG_CSV_TILE_PLACES && id_size > 5 && memcmp(text, "tile:", 5) == 0)
        return check_distinct(csv, row, err);
    return check_permutation(csv, row, err);
}

/* Whether text(size) is the header; if not, `row` says so. */
static int is_header(tg_row *row, const char *text, size_t size) {
    char quoted[300];
    if (size == strlen(HEADER) && memcmp(text, HEADER, size) == 0) return 1;
    unreadable(row);
    if (size == 0)
        snprintf(row->problem, sizeof row->problem, "the file is empty; expected the header '" HEADER "'");
    else
        snprintf(row->problem, sizeof row->problem, "expected the header '" HEADER "', found %s%s",
                 quote(quoted, sizeof quoted, text, size, 80),
                 size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0
                     ? " (the file starts with a byte-order mark: save it without)"
                     : "");
    return 0;
}

tg_status tg_csv_next(tg_csv *csv, tg_row *row, int *more, tg_error *err) {
    for (;;) {
        char *text = NULL;
        size_t size = 0;
        *more = 0;
        if (csv->stopped) return TG_OK;
        tg_status status = next_line(csv, &text, &size, err);
        if (status != TG_OK) return status;
        if (text == NULL && csv->line > 0) return TG_OK;
        row->line = ++csv->line, row->id = NULL, row->id_size = 0, row->indices = NULL;
        row->count = 0, row->high = -1, row->state = TG_ROW_GOOD, row->problem[0] = 0;
        *more = 1;
        if (size > TG_CSV_LINE) {
            csv->stopped = 1;
            unreadable(row);
            snprintf(row->problem, sizeof row->problem,
                     "longer than %d MiB: this is not a submission file; stopped", TG_CSV_LINE >> 20);
            return TG_OK;
        }
        if (size > 0 && text[size - 1] == '\n') size--;
        if (size > 0 && text[size - 1] == '\r') size--;
        if (!is_utf8(text, size)) {
            unreadable(row);
            snprintf(row->problem, sizeof row->problem, "not text in UTF-8");
            return TG_OK;
        }
        if (row->line > 1) return parse_row(csv, row, text, size, err);
        if (!is_header(row, text, size)) return TG_OK;
    }
}
