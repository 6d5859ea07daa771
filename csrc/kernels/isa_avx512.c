/* AVX-512 (F, VL, BW, DQ): 16 floats, 32 registers. Flags: setup.py, ISA_FLAGS. */
#define TG_ISA      tg_isa_avx512
#define TG_ISA_NAME "avx512"
#define TG_VF       16
#define TG_MR       12
#include "kernels/all.inc"
