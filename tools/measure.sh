#!/bin/sh
# measure.sh - runs the benchmarks of one page of docs/measured on an idle machine and writes that page.
#
#     tools/measure.sh linear|attention|decode|methods|select|opencl [BUILD_FOLDER] > docs/measured/PAGE.md
#
# MEASURE_WITH: a command that runs each bench, for example one that keeps other programs off the machine.
set -u
page=${1:-}
build=${2:-build}
kvcull=$build/kvcull

run() { # TITLE COMMAND...
    printf '## %s\n\n    $ ' "$1"
    shift
    printf '%s\n' "$*" | sed "s|$build/||g"
    ${MEASURE_WITH:-} "$@" 2>/dev/null | sed 's/^/    /; s/ *$//'
    printf '\n'
}

# decode_pairs TYPE: measures decode of a model with one billion parameters on cpu and on opencl, in three pairs of
# runs. Prints the median of their ratios.
decode_pairs() {
    work=$(mktemp -d) || exit 4
    trap 'rm -rf "$work"' EXIT
    printf '## Decode of one billion parameters: weights of %s\n\n' "$1"
    printf '    $ kvcull mkmodel --shape llama-3.2-1b --type %s -o model.gguf\n' "$1"
    "$kvcull" mkmodel --shape llama-3.2-1b --type "$1" -o "$work/model.gguf" >/dev/null || exit
    set -- --kv full --prompt 64 --gen 24 --repeat 1 --json -q
    printf '    $ kvcull bench -m model.gguf --backend cpu %s   # and opencl, alternating\n' "$*"
    for pair in 1 2 3; do
        for backend in cpu opencl; do
            ${MEASURE_WITH:-} "$kvcull" bench -m "$work/model.gguf" --backend $backend "$@" 2>/dev/null
        done
    done | awk '
        /"step_seconds":/ { step = $2 * 1e3 }
        /"bandwidth":/ { bandwidth = $2 / 1e9 }
        /^}/ && ++runs % 2 { cpu = step; read = bandwidth }
        /^}/ && runs % 2 == 0 {
            ratio[++pairs] = cpu / step
            printf "    cpu %6.1f ms a step (memory reads at %4.1f GB/s), opencl %6.1f ms (%4.1f GB/s): %.2f as fast\n",
                cpu, read, step, bandwidth, ratio[pairs]
        }
        END {
            if (pairs != 3) { print "    not measured"; exit }
            a = ratio[1]; b = ratio[2]; c = ratio[3]
            low = a < b ? a : b; high = a < b ? b : a
            printf "\nMedian: opencl decodes %.2f times as fast as cpu.\n", (c < low ? low : c > high ? high : c)
        }'
    printf '\n'
    rm -rf "$work"
}

head_of_page() { # TITLE
    printf '# %s\n\n' "$1"
    printf 'Written by `tools/measure.sh %s` on %s: %s, %s cores, %s, %s.\n' "$page" "$(date -u +%Y-%m-%d)" \
        "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
        "$($kvcull info backends | sed -n 's/^cpu *yes *[^ ]* *\([a-z0-9]*\).*/\1/p')" "$($kvcull --version | head -n 1)"
    printf 'Ratios compare measurements of the same run.\n\n'
}

case $page in
linear)
    head_of_page 'Linear layers'
    for table in gemm types small-batch linear-decode linear-cached int8; do
        run "The table $table, one thread" "$kvcull" bench --table $table --threads 1
    done
    ;;
attention)
    head_of_page 'Attention kernels'
    for table in attention-decode attention-prefill attention-int8; do
        run "The table $table, one thread" "$kvcull" bench --table $table --threads 1
        run "The table $table, two threads" "$kvcull" bench --table $table --threads 2
    done
    for path in avx512 avx2; do
        run "Prefill by $path" env KVCULL_CPU=$path "$kvcull" bench --table attention-prefill --threads 1
    done
    for tokens in 4096 16384; do
        for math in float int8; do
            run "Attention's share: 100m, $tokens tokens, $math" "$kvcull" bench --table prompt --shape 100m --type q8_0 \
                --math $math --threads 1 --prompt $tokens
        done
    done
    ;;
decode)
    head_of_page 'Decode of a 1-billion-parameter shape'
    for type in f16 q8_0; do
        run "Weights of $type" "$kvcull" bench --shape llama-3.2-1b --type $type --kv full --prompt 64 --gen 48 --repeat 1
    done
    ;;
methods)
    head_of_page 'Cost of each method'
    duo=duo:file=every-other,sinks=128,recent=896
    run 'Decode methods compared with streaming at the same budget' "$kvcull" bench --shape 100m --kv streaming:budget=1024 \
        --kv window:budget=1024 --kv morphkv:budget=1024 --kv morphkv:budget=1024,every=8 --kv h2o:budget=1024 \
        --kv keyformer:budget=1024 --kv scissorhands:budget=1024 --kv lacache:budget=1024,span=6 --kv tova:budget=1024 \
        --prompt 1200 --gen 240 --repeat 1
    run 'Decode methods compared with full' "$kvcull" bench --shape 100m --kv full --kv streaming:budget=1024 --kv window:budget=1024 \
        --kv morphkv:budget=1024 --kv h2o:budget=1024 --kv keyformer:budget=1024 --kv scissorhands:budget=1024 \
        --kv lacache:budget=1024,span=6 --kv tova:budget=1024 --kv "$duo" --prompt 1200 --gen 200 --repeat 1
    run 'Budgets that are not reached' "$kvcull" bench --shape 100m --kv streaming:budget=4096 --kv morphkv:budget=4096 \
        --kv h2o:budget=4096 --kv keyformer:budget=4096 --kv scissorhands:budget=4096 --kv tova:budget=4096 --prompt 1024 \
        --gen 150 --repeat 1
    run 'snapkv compared with full, a prompt of 4096' "$kvcull" bench --shape 100m --kv full --kv snapkv:budget=1024 \
        --prompt 4096 --gen 0 --repeat 4
    for some in 'pyramidkv adakv cake fastkv' 'dapq tova streaming scissorhands' 'take rocketkv lacache morphkv' \
        'duo window rocketkv-mt'; do
        set --
        for method in $some; do
            case $method in
            lacache) method=lacache:budget=1024,span=6 ;;
            duo) method=$duo ;;
            *) method=$method:budget=1024 ;;
            esac
            set -- "$@" --kv "$method"
        done
        run "Prompt methods compared with full: $some" "$kvcull" bench --shape 100m --kv full "$@" --prompt 4096 --gen 0 \
            --repeat 2
    done
    for method in cake dapq take scissorhands; do
        run "$method between two of full" "$kvcull" bench --shape 100m --kv full --kv $method:budget=1024 --kv full \
            --prompt 4096 --gen 0 --repeat 3
    done
    set --
    for method in snapkv pyramidkv adakv cake fastkv rocketkv rocketkv-mt morphkv tova scissorhands streaming window; do
        set -- "$@" --kv $method:budget=1024
    done
    run 'Prompt stages alone' "$kvcull" bench --shape 100m --kv full "$@" --kv lacache:budget=1024,span=6 \
        --kv "$duo" --kv take:budget=1024 --prompt 4096 --gen 0 --fill --chunk 32 --repeat 9
    run 'Prompt methods that need the attention of all queries' "$kvcull" bench --shape 100m --kv full --kv h2o:budget=1024 \
        --kv keyformer:budget=1024 --prompt 4096 --gen 0 --repeat 2
    run 'Batches' "$kvcull" bench --shape 100m --kv streaming:budget=512 --prompt 512 --gen 16 --batch 1,8,32 --repeat 1
    run 'morphkv over 20,000 generated tokens' "$kvcull" bench --shape small --kv morphkv:budget=600 --prompt 700 \
        --gen 20000 --repeat 1
    run 'Layer-major prefill of 16,384 tokens' "$kvcull" bench --shape 100m --kv snapkv:budget=512 --prompt 16384 \
        --gen 0 --repeat 1
    ;;
select)
    head_of_page 'Decode attention of select methods compared with full'
    run 'Two threads' "$kvcull" bench --table select --threads 2
    ;;
opencl)
    head_of_page 'OpenCL compared with the reference and the CPU backend'
    printf 'An operation counts as slower than ref only beyond a margin of 10 %% plus the time of two empty calls for each call that\n'
    printf 'it queues; "!" marks these. An operation that is not twice as fast at once is measured five times, alternating with ref,\n'
    printf 'and the median ratio counts. "Of limit" is above 1 if the data of a call is in a cache.\n\n'
    run 'Every operation compared with the limits of the device, and with ref' "$kvcull" bench --ops --backend opencl \
        --beside ref
    printf 'Two more runs of the whole table end with:\n\n'
    for again in 2 3; do
        ${MEASURE_WITH:-} "$kvcull" bench --ops --backend opencl --beside ref -q 2>/dev/null | tail -n 1 | sed 's/^/    /'
    done
    printf '\n'
    decode_pairs f16
    decode_pairs q8_0
    run 'How far --math fast (CLBlast) is from exact' "$kvcull" logits -m data/demo -f README.md --backend opencl \
        --math fast
    ;;
*)
    printf 'measure.sh: give a page to measure: linear, attention, decode, methods, select or opencl\n' >&2
    exit 2
    ;;
esac
