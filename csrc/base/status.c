#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

tg_status tg_fail_field(tg_error *err, const char *field, const char *expected, const char *found_fmt, ...) {
    if (err == NULL) return TG_E_DATA;
    memset(err, 0, sizeof *err);
    err->code = TG_E_DATA;
    snprintf(err->field, sizeof err->field, "%s", field);
    snprintf(err->expected, sizeof err->expected, "%s", expected);
    va_list args;
    va_start(args, found_fmt);
    vsnprintf(err->found, sizeof err->found, found_fmt, args);
    va_end(args);
    snprintf(err->message, sizeof err->message, "%s: expected %s, found %s", err->field, err->expected,
             err->found);
    return TG_E_DATA;
}
