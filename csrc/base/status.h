/* Status codes and the error record that C code fills in and only py/ turns into a Python exception. */
#ifndef TG_STATUS_H
#define TG_STATUS_H

/* Those of include/tpugraphs.h: add at the end, in both. */
#ifndef TG_STATUS_CODES
#define TG_STATUS_CODES
typedef enum tg_status {
    TG_OK = 0,
    TG_E_DATA,       /* tpugraphs.DataError: a file or an array is not what it must be */
    TG_E_CONFIG,     /* tpugraphs.ConfigError: options that do not go together */
    TG_E_RECIPE,     /* tpugraphs.RecipeError: a model description that cannot be built */
    TG_E_SHAPE,      /* tpugraphs.ShapeError (also ValueError) */
    TG_E_CHECKPOINT, /* tpugraphs.CheckpointError */
    TG_E_IO,         /* OSError, with the errno of the failed call */
    TG_E_MEMORY,     /* MemoryError */
    TG_E_CANCELLED,  /* the caller's poll function asked to stop; its exception is already set */
    TG_E_NOT_FINITE, /* tpugraphs.errors.NotFiniteError: scores or gradients that overflowed or are NaN */
    TG_E_BUSY        /* of the C library: the object is in use by another thread */
} tg_status;
#endif

/* What went wrong, in words for people. `field`, `found` and `expected` may be empty. */
typedef struct tg_error {
    tg_status code;
    int sys_errno; /* for TG_E_IO */
    char field[96];
    char found[192];
    char expected[384];
    char message[704];
} tg_error;

#if defined(__GNUC__)
#define TG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TG_PRINTF(fmt, args)
#endif

/* The ending of a noun after a number: "%d node%s", n, TG_S(n). */
#define TG_S(n) ((n) == 1 ? "" : "s")

/* Names may come from a file: '?' for every control character, so that an error is one line all the same. */
void tg_error_printable(tg_error *err);

/* Fill `err` (may be NULL) and return `code`, so that a caller can write `return tg_fail(...)`. */
tg_status tg_fail(tg_error *err, tg_status code, const char *fmt, ...) TG_PRINTF(3, 4);

/* A TG_E_DATA about one field: what was expected (constant text) and what was found (formatted). */
tg_status tg_fail_field(tg_error *err, const char *field, const char *expected, const char *found_fmt, ...)
    TG_PRINTF(4, 5);

/* The same with another code. */
tg_status tg_refuse(tg_error *err, tg_status code, const char *field, const char *expected,
                    const char *found_fmt, ...) TG_PRINTF(5, 6);

/* A TG_E_DATA about one field, with what to do about it appended to the message. */
tg_status tg_bad_field(tg_error *err, const char *field, const char *expected, const char *remedy,
                       const char *found_fmt, ...) TG_PRINTF(5, 6);

/* TG_E_IO with the errno of the call that has just failed. */
tg_status tg_fail_errno(tg_error *err, const char *what);

#endif
