# Flags of the compiler, for setup.py (the extension module) and the Makefile (the library): lines NAME = flags.
CORE_FLAGS = -std=gnu11 -O3 -g0 -fopenmp -fvisibility=hidden -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-semantic-interposition -Icsrc
# The library's own: its public header, and memory that a host may provide.
LIBRARY_FLAGS = -Iinclude -include csrc/clib/memory.h -DNDEBUG -ffunction-sections -fdata-sections
# Kernels that no scores need, for a library that is to be small; and where the others are named.
TRAINING_KERNELS = norm_back fix act_grad blend_by_back layer_norm_back unit_rows_back bend_back drop_rows add_normals elu_one_back lookup_grad digit_table_grad mix_backward attend_grad soften_back attend_sender attend_collect head_dots_back adamw list_mle logistic_row
# gemm_tn is for training, too, but in these ops scores need it.
TURNED_OPS = linear_attention outer_pool
SCORING_KERNELS = base7_encode base7_decode pack_digits panel gemm pack_nt pack_nn
WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
# csrc/kernels/isa_*.c hold the same kernels compiled for one instruction set each; all but the baseline are x86-64's.
FLAGS_isa_avx2 = -mavx2 -mfma -mbmi2
FLAGS_isa_avx512 = -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mbmi2 -mprefer-vector-width=512
FLAGS_isa_avx512_vnni = -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mbmi2 -mprefer-vector-width=512 -mavx512vnni
FLAGS_isa_avx512_bf16 = -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mbmi2 -mprefer-vector-width=512 -mavx512bf16 -mavx512vnni
