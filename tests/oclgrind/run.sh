#!/bin/sh
# run.sh BUILD - operations and methods under Oclgrind, an interpreter of OpenCL kernels that reports data races and
# accesses outside of buffers. Prints a line "ok NAME" or "not ok NAME: WHY" for each
# part: bits are compared with ref's, and any word of Oclgrind's is a failure. Operations get small cases
# (verify --small); methods run on made-up keys (replay), because the linear layers of a model would take hours here.
# The kernels are given without optimization, so that what is read and written is what the source says; optimized ones
# hold llvm.usub.sat (of a > b ? a - b : 0), which Oclgrind does not know.
build=${1:?BUILD} top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$build" && pwd) || exit 4
kvcull=$build/kvcull
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
XDG_CACHE_HOME=$work/cache KVCULL_OPENCL_ZERO=write KVCULL_OPENCL_CHECKS=few KVCULL_DATA=$top/data
export XDG_CACHE_HOME KVCULL_OPENCL_ZERO KVCULL_OPENCL_CHECKS KVCULL_DATA
mkdir -p "$work/cache"
small='verify --backend opencl --only operations --small --effort 0 -q'

# simulated LOG SHAPE CHECKS COMMAND...: CHECKS are options of oclgrind's.
simulated() {
    log=$1 shape=$2 checks=$3
    shift 3
    # shellcheck disable=SC2086
    KVCULL_OPENCL_SHAPE=$shape oclgrind --max-errors 20 $checks --log "$log" "$kvcull" "$@"
}
# Oclgrind's options for builds are one word.
checked() {
    OCLGRIND_BUILD_OPTIONS=-O0
    export OCLGRIND_BUILD_OPTIONS
    simulated "$@"
}

# judge NAME STATUS LOG ERRORS: the verdict on one run.
judge() {
    if [ -s "$3" ]; then
        echo "not ok $1: $(grep -m 3 . "$3" | tr '\n\t' '  ')"
    elif [ "$2" != 0 ]; then
        echo "not ok $1: exit status $2, $(tail -n 1 "$4")"
    else
        echo "ok $1"
    fi
}

operations() { # SHAPE CHECKS
    checked "$work/$1.log" "$1" "$2" $small >"$work/$1.out" 2>&1
    judge "operations, $1 shape" $? "$work/$1.log" "$work/$1.out"
}

# Every method that the program has: as in this list, otherwise with a budget of 5 alone. A dump of 2 layers, 2 query heads on one KV
# head; 6 rows are the prompt, one is a decode step.
specs='full streaming:budget=5,sinks=1 scissorhands:budget=5,history=3
    snapkv:budget=5,window=2,kernel=3 pyramidkv:budget=5,window=2,kernel=3 adakv:budget=5,window=2,kernel=3
    cake:budget=5,window=2,kernel=3 fastkv:budget=5,window=2,kernel=3,tsp=6 lacache:budget=6,span=1,sinks=1
    duo:file=every-other,sinks=1,recent=3 morphkv:budget=5,window=3 dapq:budget=5,pseudo=3,head=1
    take:budget=5,chunk=5,probe=2,kernel=3 quest:budget=4,page=2 sparq:budget=4 hsa:page=2,dims=3,topk=2
    rocketkv:budget=5,window=2,kernel=3 rocketkv-mt:budget=5,window=2,kernel=3 topk:budget=4'
dump=$work/dump.safetensors
methods() {
    "$build/tests/cli/make_dump" "$dump" 2 7 2 1 4 $(for l in 0 1; do
        echo "layers.$l.pseudo_q:3:2:4 layers.$l.pseudo_k:3:1:4 layers.$l.probe_q.0:2:2:4 layers.$l.probe_q.1:2:2:4"
    done) || exit 4
    "$kvcull" info methods --json | sed -n '/^  "methods": \[/,/^  \]/s/^      "name": "\([a-z0-9-]*\)".*/\1/p' >"$work/names"
    for name in $(cat "$work/names"); do
        spec=$name:budget=5
        for one in $specs; do case $one in "$name" | "$name:"*) spec=$one ;; esac; done
        run="replay --kv $spec --prompt 6 --in $dump -q"
        "$kvcull" $run --backend ref --out "$work/ref.json" --attn "$work/ref.out" >"$work/m.out" 2>&1 ||
            { echo "not ok method $name: ref: $(tail -n 1 "$work/m.out")"; continue; }
        checked "$work/m.log" gpu --data-races $run --backend opencl --out "$work/m.json" \
            --attn "$work/m.tensors" >"$work/m.out" 2>&1
        status=$?
        if [ $status = 0 ] && ! { cmp -s "$work/ref.json" "$work/m.json" && cmp -s "$work/ref.out" "$work/m.tensors"; }; then
            echo "not ok method $name: other bits than ref's"
        else
            judge "method $name" $status "$work/m.log" "$work/m.out"
        fi
    done
    [ "$(wc -l <"$work/names")" -ge 20 ] || echo 'not ok methods: info methods lists fewer than 20'
}

# Kernels without their barriers: races must be found, or nothing above means anything.
broken() {
    mkdir "$work/broken"
    XDG_CACHE_HOME=$work/broken OCLGRIND_BUILD_OPTIONS='-O0 -DKVC_BARRIER()='
    export XDG_CACHE_HOME OCLGRIND_BUILD_OPTIONS
    simulated "$work/b.log" gpu '--data-races --max-errors 100000' replay --kv full --prompt 6 --in "$dump" -q \
        --backend opencl --out "$work/b.json" >"$work/b.out" 2>&1
    grep -q 'data race' "$work/b.log" && echo 'ok races are found' || echo 'not ok kernels without barriers: no race found'
}

operations gpu --data-races >"$work/gpu.verdict" &
methods
broken
operations cpu --data-races
wait $!
cat "$work/gpu.verdict"
