#include "kernels/kernels.h"

#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* TG_BASELINE_ONLY: for programs that are built without the other levels (csrc/fuzz) */
#if (defined(__x86_64__) || defined(_M_X64)) && !defined(TG_BASELINE_ONLY)
#define TG_X86 1
#else
#define TG_X86 0
#endif

/* One table per precision. Those of the last two have NULL where a kernel is that of the level before. */
extern const tg_kernels tg_isa_baseline[TG_PRECISIONS];
#if TG_X86
extern const tg_kernels tg_isa_avx2[TG_PRECISIONS], tg_isa_avx512[TG_PRECISIONS],
    tg_isa_avx512_vnni[TG_PRECISIONS], tg_isa_avx512_bf16[TG_PRECISIONS];
#endif

static const tg_kernels *tables[TG_MOST_LEVELS]; /* the first of each level's tables, TG_F32 */
#if TG_X86
static tg_kernels avx512_vnni[TG_PRECISIONS], avx512_bf16[TG_PRECISIONS];
#endif
static const char *names[TG_MOST_LEVELS + 1];
static const tg_kernels *_Atomic chosen = NULL;

#if TG_X86
/* The tables of a level that has some kernels of its own, and else those of `base`. */
static void complete(tg_kernels *whole, const tg_kernels *own, const tg_kernels *base) {
    for (int i = 0; i < TG_PRECISIONS; i++) {
        whole[i] = base[i];
        whole[i].name = own[TG_F32].name;
#define TG_TAKE(kernel, ret, args)                                                                           \
    if (own[i].kernel != NULL) whole[i].kernel = own[i].kernel;
        TG_PRODUCT_LIST(TG_TAKE)
        TG_KERNEL_LIST(TG_TAKE)
#undef TG_TAKE
    }
}

static void complete_all(void) {
    complete(avx512_vnni, tg_isa_avx512_vnni, tg_isa_avx512);
    complete(avx512_bf16, tg_isa_avx512_bf16, avx512_vnni);
}
#endif

/* The tables of the levels that `cpu` can run, fastest first; returns their number. */
static int levels_of(const tg_cpu *cpu, const tg_kernels *levels[TG_MOST_LEVELS]) {
    int n = 0;
#if TG_X86
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, complete_all);
    const int avx2 = cpu->avx2 && cpu->fma && cpu->bmi2, vnni = cpu->avx512vnni,
              avx512 = cpu->avx512f && cpu->avx512vl && cpu->avx512bw && cpu->avx512dq && avx2,
              bf16 = vnni && cpu->avx512bf16; /* every CPU with the bf16 product also has the int8 one */
    if (avx512 && bf16 && cpu->amd) levels[n++] = avx512_bf16;
    if (avx512 && vnni) levels[n++] = avx512_vnni;
    if (avx512 && bf16 && !cpu->amd) levels[n++] = avx512_bf16;
    if (avx512) levels[n++] = tg_isa_avx512;
    if (avx2) levels[n++] = tg_isa_avx2;
#else
    (void)cpu;
#endif
    levels[n++] = tg_isa_baseline;
    return n;
}

void tg_isa_levels_of(const tg_cpu *cpu, const char *level_names[TG_MOST_LEVELS + 1]) {
    const tg_kernels *levels[TG_MOST_LEVELS];
    const int n = levels_of(cpu, levels);
    for (int i = 0; i < n; i++) level_names[i] = levels[i]->name;
    level_names[n] = NULL;
}

static tg_cpu this_cpu(void) {
    tg_cpu cpu = {0};
#if TG_X86
    __builtin_cpu_init();
    cpu.amd = __builtin_cpu_is("amd") != 0;
#define TG_ASK(feature) cpu.feature = __builtin_cpu_supports(#feature) != 0;
    TG_CPU_LIST(TG_ASK)
#undef TG_ASK
#endif
    return cpu;
}

static void find_once(void) {
    const tg_cpu cpu = this_cpu();
    levels_of(&cpu, tables);
    tg_isa_levels_of(&cpu, names);
}

static void find_levels(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_once);
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
    find_levels();
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
