/* AVX-512 with VNNI: products of int8 in hardware, those of bf16 as float32; every other kernel is that of
   isa_avx512.c. Flags: csrc/flags.mk. */
#define TG_VF 16
#define TG_MR 12
#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"

#include "kernels/gemm.inc"
#include "kernels/gemm_int8.inc"

extern const tg_kernels tg_isa_avx512_vnni[TG_PRECISIONS];
const tg_kernels tg_isa_avx512_vnni[TG_PRECISIONS] = {
    [TG_F32] = {.name = "avx512_vnni"},
    [TG_INT8] = {.panel = int8_panel, .pack_nt = int8_pack_nt, .pack_nn = int8_pack_nn, .gemm = int8_gemm},
};
