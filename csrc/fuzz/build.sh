#!/bin/sh
# Build every fuzz target into a folder: csrc/fuzz/build.sh FOLDER. Needs clang; run from the project's root.
set -eu
out=${1:?folder for the programs}
objects=$out/objects
plain="-std=gnu11 -O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address -DTG_BASELINE_ONLY -Icsrc"
flags="$plain -fsanitize=undefined -fno-sanitize-recover=undefined"
mkdir -p "$objects"
# What reads files, and what that needs; compiled once for all targets, on all cores.
compile="clang $flags -c -o $objects/\$(basename \$0 .c).o \$0"
# The kernels take a minute with the third sanitizer, under which the test suite runs them.
clang $plain -c -o "$objects/isa_baseline.o" csrc/kernels/isa_baseline.c &
kernels=$!
printf '%s\n' csrc/io/*.c csrc/hlo/*.c csrc/features/opcodes.c csrc/configs/codes.c csrc/configs/digits.c \
    csrc/configs/distinct.c csrc/trees/forest.c csrc/trees/modeltext.c csrc/search/expr.c csrc/search/exprrun.c \
    csrc/base/status.c csrc/base/json.c csrc/base/jsontree.c csrc/base/numbers.c csrc/base/cancel.c \
    csrc/kernels/select.c | xargs -P "$(nproc)" -n 1 sh -c "$compile"
wait "$kernels"
link="clang $flags -fsanitize=fuzzer -o $out/\$(basename \$0 .c) \$0 $objects/*.o -lpthread -lm"
printf '%s\n' csrc/fuzz/fuzz_*.c | grep -v -e _ranker -e _builder | xargs -P "$(nproc)" -n 1 sh -c "$link"
# The public functions, of the whole library without OpenMP.
checks="-O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address"
make -s -j"$(nproc)" lib CC=clang SERIAL=1 SMALL=1 OPT="$checks" LIB="$out/lib" LIBRARY="$out/lib/libtpugraphs.a"
for target in ranker builder; do
    clang $flags -Iinclude -fsanitize=fuzzer -o "$out/fuzz_$target" csrc/fuzz/fuzz_$target.c "$out/lib/libtpugraphs.a" \
        -lpthread -lm
done
