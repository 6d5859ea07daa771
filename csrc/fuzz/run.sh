#!/bin/sh
# Fuzz the npz reader: csrc/fuzz/run.sh [seconds per target, default 30]. Needs clang; run from the project's root.
# Seeds are the embedded samples; what is found stays in build/fuzz/.
set -eu
seconds=${1:-30}
out=build/fuzz
mkdir -p "$out"
for target in npz inflate; do
    clang -std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=undefined -Icsrc -o "$out/fuzz_$target" "csrc/fuzz/fuzz_$target.c" \
        csrc/data/crc.c csrc/data/digits.c csrc/data/huffman.c csrc/data/inflate.c csrc/data/npy.c csrc/data/npz.c \
        csrc/data/zip.c csrc/base/status.c csrc/base/cancel.c
done
python3 csrc/fuzz/seeds.py "$out"
for target in npz inflate; do
    (cd "$out" && ./fuzz_$target -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=65536 \
        -print_final_stats=1 "corpus_$target")
done
