/* AVX2 + FMA: 8 floats, 16 registers. Flags: setup.py, ISA_FLAGS. */
#define TG_ISA      tg_isa_avx2
#define TG_ISA_NAME "avx2"
#define TG_VF       8
#define TG_MR       6
#include "kernels/all.inc"
