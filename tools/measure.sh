#!/bin/sh
# measure.sh - runs the benches behind docs/measured/cpu.md on a quiet machine and writes that page.
#
#     tools/measure.sh [BUILD_FOLDER] > docs/measured/cpu.md
set -u
build=${1:-build}
kvcull=$build/kvcull

run() { # TITLE COMMAND...
    printf '## %s\n\n    $ ' "$1"
    shift
    printf '%s\n' "$*" | sed "s|$build/||g"
    "$@" 2>/dev/null | sed 's/^/    /; s/ *$//'
    printf '\n'
}

printf '# Measured on a CPU\n\n'
printf 'Written by `tools/measure.sh` on %s: %s, %s cores, %s, %s.\n' "$(date -u +%Y-%m-%d)" \
    "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
    "$($kvcull info backends | sed -n 's/^cpu *yes *\([a-z0-9]*\).*/\1/p')" "$($kvcull --version | head -n 1)"
printf 'Ratios compare what was measured in the same run.\n\n'

run 'Linear layers against OpenBLAS and the read bandwidth' "$build/bench/linear"
run 'Attention and what policies look at' "$build/bench/attention"
for type in f16 q8_0; do
    run "Decode of a 1-billion-parameter shape, $type" "$kvcull" bench --shape llama-3.2-1b --type $type \
        --kv full --prompt 64 --gen 48 --repeat 1
done
run 'morphkv beside streaming at the same budget' "$kvcull" bench --shape 100m --kv streaming:budget=1024 \
    --kv morphkv:budget=1024 --kv morphkv:budget=1024,every=8 --prompt 1500 --gen 300 --repeat 1
run 'snapkv beside full in a prefill of 4096 tokens' "$kvcull" bench --shape 100m --kv full --kv snapkv:budget=1024 \
    --prompt 4096 --gen 0 --repeat 3
run 'Batches' "$kvcull" bench --shape 100m --kv streaming:budget=512 --prompt 512 --gen 32 --batch 1,8,32 --repeat 1
run 'morphkv over 20,000 generated tokens' "$kvcull" bench --shape 100m --kv morphkv:budget=600 --prompt 700 \
    --gen 20000 --repeat 1
run 'Layer-major prefill of 16,384 tokens' "$kvcull" bench --shape 100m --kv snapkv:budget=512 --prompt 16384 --gen 0 \
    --repeat 1
