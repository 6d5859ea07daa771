#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void make_printable(char *text) {
    for (; *text != 0; text++) *text = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
}

void tg_error_printable(tg_error *err) {
    make_printable(err->message);
    make_printable(err->field);
    make_printable(err->found);
}

tg_status tg_fail(tg_error *err, tg_status code, const char *fmt, ...) {
    if (err == NULL) return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    return code;
}

static tg_status refuse(tg_error *err, tg_status code, const char *field, const char *expected,
                        const char *found_fmt, va_list args) {
    if (err == NULL) return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    snprintf(err->field, sizeof err->field, "%s", field);
    snprintf(err->expected, sizeof err->expected, "%s", expected);
    vsnprintf(err->found, sizeof err->found, found_fmt, args);
    snprintf(err->message, sizeof err->message, "%s: expected %s, found %s", err->field, err->expected,
             err->found);
    return code;
}

tg_status tg_fail_field(tg_error *err, const char *field, const char *expected, const char *found_fmt, ...) {
    va_list args;
    va_start(args, found_fmt);
    refuse(err, TG_E_DATA, field, expected, found_fmt, args);
    va_end(args);
    return TG_E_DATA;
}

tg_status tg_refuse(tg_error *err, tg_status code, const char *field, const char *expected,
                    const char *found_fmt, ...) {
    va_list args;
    va_start(args, found_fmt);
    refuse(err, code, field, expected, found_fmt, args);
    va_end(args);
    return code;
}

tg_status tg_bad_field(tg_error *err, const char *field, const char *expected, const char *remedy,
                       const char *found_fmt, ...) {
    char found[sizeof err->found];
    va_list args;
    va_start(args, found_fmt);
    vsnprintf(found, sizeof found, found_fmt, args);
    va_end(args);
    tg_fail_field(err, field, expected, "%s", found);
    if (err != NULL) {
        size_t used = strlen(err->message);
        snprintf(err->message + used, sizeof err->message - used, "; %s", remedy);
    }
    return TG_E_DATA;
}

tg_status tg_fail_errno(tg_error *err, const char *what) {
    const int saved = errno;
    tg_fail(err, TG_E_IO, "%s", what);
    if (err != NULL) err->sys_errno = saved;
    return TG_E_IO;
}
