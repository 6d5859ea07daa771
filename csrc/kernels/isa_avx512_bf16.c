/* AVX-512 with BF16 and VNNI: products of bf16 and int8 in hardware, everything else as isa_avx512.c.
   Flags: setup.py, ISA_FLAGS. */
#define TG_ISA      tg_isa_avx512_bf16
#define TG_ISA_NAME "avx512_bf16"
#define TG_VF       16
#define TG_MR       12
#include "kernels/all.inc"
