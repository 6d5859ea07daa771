#!/bin/sh
# Fuzz the readers of files: csrc/fuzz/run.sh [seconds per target, default 30]. Needs clang, and python3
# with the package built; run from
# the project's root. Seeds are made from made-up graphs; what is found stays in build/fuzz/.
set -eu
seconds=${1:-30}
out=build/fuzz
sh csrc/fuzz/build.sh "$out"
python3 csrc/fuzz/seeds.py "$out"
# one process per core; what a target says comes when it has ended
one='./fuzz_$0 -max_total_time='$seconds' -timeout=5 -rss_limit_mb=1024 -max_len=65536 -verbosity=0 \
    -print_final_stats=1 corpus_$0 >$0.log 2>&1; status=$?; cat $0.log; exit $status'
(cd "$out" && printf '%s\n' npz inflate safetensors jsontree pack hlo modeltext expr ranker builder | xargs -P "$(nproc)" -n 1 sh -c "$one")
