#!/bin/sh
# Fuzz the readers of files: csrc/fuzz/run.sh [seconds per target, default 30]. Needs clang, python3 with NumPy; run from
# the project's root. Seeds are made from made-up graphs; what is found stays in build/fuzz/.
set -eu
seconds=${1:-30}
out=build/fuzz
sh csrc/fuzz/build.sh "$out"
python3 csrc/fuzz/seeds.py "$out"
for target in npz inflate safetensors jsontree pack hlo; do
    (cd "$out" && ./fuzz_$target -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=65536 \
        -verbosity=0 -print_final_stats=1 "corpus_$target")
done
