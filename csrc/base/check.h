/* Checks of a build for developers (TG_CHECKED: TPUGRAPHS_DEBUG=1 or TPUGRAPHS_SANITIZE=1). There, everything carved out
   of an arena has a redzone behind it, fresh memory is filled with NaN, and TG_ASSERT stops the process. Otherwise all
   of it is nothing. */
#ifndef TG_CHECK_H
#define TG_CHECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef TG_CHECKED
enum { TG_REDZONE = 32 }; /* floats */
void tg_check_failed(const char *file, int line, const char *what);
#define TG_ASSERT(condition) ((condition) ? (void)0 : tg_check_failed(__FILE__, __LINE__, #condition))
/* NaN into place(floats), which must not be poisoned, and a redzone behind it. */
void tg_redzone_open(float *place, int64_t floats);
/* Whether the redzone behind place(floats) was written to; it becomes ordinary memory. */
void tg_redzone_close(const char *what, float *place, int64_t floats);
/* Make place(floats) ordinary memory. */
void tg_unpoison(float *place, int64_t floats);
#else
enum { TG_REDZONE = 0 };
#define TG_ASSERT(condition) ((void)sizeof(condition))
static inline void tg_redzone_open(float *place, int64_t floats) { (void)place, (void)floats; }
static inline void tg_redzone_close(const char *what, float *place, int64_t floats) {
    (void)what, (void)place, (void)floats;
}
static inline void tg_unpoison(float *place, int64_t floats) { (void)place, (void)floats; }
#endif

#endif
