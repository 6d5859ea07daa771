/* AVX-512 with BF16 and VNNI: products of bf16 in hardware, also those within `mix`; products of int8 are those of
   isa_avx512_vnni.c, every other kernel is that of isa_avx512.c. Flags: csrc/flags.mk. */
#define TG_VF 16
#define TG_MR 12
#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

#include "kernels/gemm.inc"
#include "kernels/gemm_bf16.inc"
#include "kernels/gate.inc"
#include "kernels/mix.inc"

extern const tg_kernels tg_isa_avx512_bf16[TG_PRECISIONS];
const tg_kernels tg_isa_avx512_bf16[TG_PRECISIONS] = {
    [TG_F32] = {.name = "avx512_bf16"},
    [TG_BF16] = {.panel = bf16_panel,
                 .pack_nt = bf16_pack_nt,
                 .pack_nn = bf16_pack_nn,
                 .gemm = bf16_gemm,
                 .gemm_tn = bf16_gemm_tn,
                 .mix_forward = mix_forward,
                 .mix_backward = mix_backward},
};
