/* AVX-512 with VNNI: products of int8 in hardware, those of bf16 as float32, everything else as isa_avx512.c.
   Flags: setup.py, ISA_FLAGS. */
#define TG_ISA      tg_isa_avx512_vnni
#define TG_ISA_NAME "avx512_vnni"
#define TG_VF       16
#define TG_MR       12
#include "kernels/all.inc"
