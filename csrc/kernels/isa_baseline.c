/* Any CPU the compiler targets by default: 4 floats (SSE2, NEON). */
#define TG_ISA      tg_isa_baseline
#define TG_ISA_NAME "baseline"
#define TG_VF       4
#define TG_MR       4
#include "kernels/all.inc"
