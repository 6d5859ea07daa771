/* Checks of a build for developers (TG_CHECKED: TPUGRAPHS_DEBUG=1 or TPUGRAPHS_SANITIZE=1). There, everything carved out
   of an arena has a redzone behind it, fresh memory is filled with NaN, and TG_ASSERT stops the process. Other
   builds do none of it. */
#ifndef TG_CHECK_H
#define TG_CHECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef TG_CHECKED
enum { TG_REDZONE = 32 }; /* floats */
void tg_check_failed(const char *file, int line, const char *what);
#define TG_ASSERT(condition) ((condition) ? (void)0 : tg_check_failed(__FILE__, __LINE__, #condition))
/* Fills place(bytes) with what is NaN as float or double and -1 as an integer, and puts a redzone behind it. */
void tg_redzone_open(void *place, size_t bytes);
/* Whether the redzone behind place(bytes) was written to; it becomes ordinary memory. */
void tg_redzone_close(const char *what, void *place, size_t bytes);
/* Make place(bytes) ordinary memory. */
void tg_unpoison(void *place, size_t bytes);
#else
enum { TG_REDZONE = 0 };
#define TG_ASSERT(condition) ((void)sizeof(condition))
static inline void tg_redzone_open(void *place, size_t bytes) { (void)place, (void)bytes; }
static inline void tg_redzone_close(const char *what, void *place, size_t bytes) {
    (void)what, (void)place, (void)bytes;
}
static inline void tg_unpoison(void *place, size_t bytes) { (void)place, (void)bytes; }
#endif
enum { TG_REDZONE_BYTES = 4 * TG_REDZONE };

#endif
