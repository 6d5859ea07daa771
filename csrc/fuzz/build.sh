#!/bin/sh
# Build every fuzz target into a folder: csrc/fuzz/build.sh FOLDER. Needs clang; run from the project's root.
set -eu
out=${1:?folder for the programs}
mkdir -p "$out"
for source in csrc/fuzz/fuzz_*.c; do
    clang -std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=undefined -DTG_BASELINE_ONLY -Icsrc -o "$out/$(basename "$source" .c)" "$source" \
        csrc/data/codes.c csrc/data/crc.c csrc/data/csv.c csrc/data/digits.c csrc/data/distinct.c csrc/data/huffman.c csrc/data/inflate.c csrc/data/json.c csrc/data/npy.c \
        csrc/data/npz.c csrc/data/pack.c csrc/data/safetensors.c csrc/data/zip.c csrc/base/status.c csrc/base/cancel.c csrc/kernels/select.c \
        csrc/kernels/isa_baseline.c -lpthread -lm
done
