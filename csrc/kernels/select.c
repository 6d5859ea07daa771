#include "kernels/kernels.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* TG_BASELINE_ONLY: for programs that are built without the other levels (csrc/fuzz) */
#if (defined(__x86_64__) || defined(_M_X64)) && !defined(TG_BASELINE_ONLY)
#define TG_X86 1
#else
#define TG_X86 0
#endif

/* One table per precision. */
extern const tg_kernels tg_isa_baseline[TG_PRECISIONS];
#if TG_X86
extern const tg_kernels tg_isa_avx2[TG_PRECISIONS], tg_isa_avx512[TG_PRECISIONS],
    tg_isa_avx512_bf16[TG_PRECISIONS];
#endif

enum { MOST_LEVELS = 8 };
static const tg_kernels *tables[MOST_LEVELS]; /* the first of each level's tables, TG_F32 */
static const char *names[MOST_LEVELS + 1];
static const tg_kernels *_Atomic chosen = NULL;

/* Idempotent: racing first callers write the same values. */
static void find_levels(void) {
    int n = 0;
#if TG_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("fma")) {
        /* every CPU with the bf16 product also has the int8 one: one level for both */
        if (__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
            tables[n++] = tg_isa_avx512_bf16;
        tables[n++] = tg_isa_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        tables[n++] = tg_isa_avx2;
#endif
    tables[n++] = tg_isa_baseline;
    for (int i = 0; i < n; i++) names[i] = tables[i]->name;
    names[n] = NULL;
}

int tg_set_isa(const char *name) {
    find_levels();
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0) {
            chosen = tables[i];
            return 1;
        }
    return 0;
}

const char *const *tg_isa_levels(void) {
    if (names[0] == NULL) find_levels();
    return names;
}

int tg_find_precision(const char *name) {
    static const char *const precisions[TG_PRECISIONS] = {"f32", "bf16", "int8"};
    for (int i = 0; i < TG_PRECISIONS; i++)
        if (strcmp(precisions[i], name) == 0) return i;
    return -1;
}

const tg_kernels *tg_kernel_table_for(tg_precision precision) {
    TG_ASSERT(precision < TG_PRECISIONS);
    return tg_kernel_table() + precision;
}

int tg_isa_from_environment(void) {
    const char *wanted = getenv("TPUGRAPHS_ISA");
    if (wanted != NULL && *wanted != '\0') return tg_set_isa(wanted);
    find_levels();
    chosen = tables[0];
    return 1;
}

const tg_kernels *tg_kernel_table(void) {
    if (chosen == NULL && !tg_isa_from_environment()) chosen = tables[0];
    return chosen;
}
