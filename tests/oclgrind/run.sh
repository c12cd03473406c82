#!/bin/sh
# run.sh BUILD - runs operations and methods under Oclgrind, an interpreter of OpenCL kernels that reports data races,
# uninitialized reads and accesses outside of buffers. Prints "ok NAME" or "not ok NAME: WHY" for each part. Results
# must be bit-identical to ref's, and any report of Oclgrind is a failure. Operations get small cases (verify --small);
# methods run on synthetic keys (replay), because a model's linear layers would take hours here. Kernels are compiled
# without optimization, so that reads and writes are those of the source. Optimized kernels contain llvm.usub.sat (from
# a > b ? a - b : 0), which Oclgrind does not support. The GPU shape has half as many work-items in a group (narrow),
# because idle work-items also cost time.
#
# Oclgrind misreports uninitialized reads after most host writes; host_writes.c corrects that. One more error is inside
# kernels: Oclgrind 21.10 treats element 11 of a shuffled vector as undefined, and reads beyond the vector where a
# shuffle leaves elements undefined. So KVC_BY_ELEMENT compiles kernels without shuffles (backends/kernels/portable.h).
# No report is filtered.
build=${1:?BUILD} top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$build" && pwd) || exit 4
kvcull=$build/.libs/kvcull # itself, not libtool's script, which would be run under all this as well
[ -x "$kvcull" ] || kvcull=$build/kvcull
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} XDG_CACHE_HOME=$work/cache KVCULL_DATA=$top/data
OCLGRIND_BUILD_OPTIONS='-O0 -DKVC_BY_ELEMENT'
export LD_LIBRARY_PATH XDG_CACHE_HOME KVCULL_DATA OCLGRIND_BUILD_OPTIONS
mkdir -p "$work/cache"
between=$work/host_writes.so
${CC:-cc} -shared -fPIC -O2 -D_GNU_SOURCE "$top/tests/oclgrind/host_writes.c" -o "$between" -ldl || exit 4

# simulated LOG SHAPE SELFTEST COMMAND...: the device's self-test runs with the operations, and is not repeated for
# methods.
simulated() {
    log=$1
    KVCULL_OPENCL_SHAPE=$2 KVCULL_OPENCL_CHECKS=$3
    export KVCULL_OPENCL_SHAPE KVCULL_OPENCL_CHECKS
    shift 3
    # shellcheck disable=SC2016
    oclgrind --data-races --uninitialized --num-threads 1 --max-errors ${most_errors:-20} --log "$log" \
        sh -c 'LD_PRELOAD=$0:$LD_PRELOAD exec "$@"' "$between" "$kvcull" "$@"
}

# judge NAME STATUS LOG ERRORS: prints the verdict on one run.
judge() {
    if [ -s "$3" ]; then
        echo "not ok $1: $(grep -m 3 . "$3" | tr '\n\t' '  ')"
    elif [ "$2" != 0 ]; then
        echo "not ok $1: exit status $2, $(tail -n 1 "$4")"
    else
        echo "ok $1"
    fi
}

operations() { # SHAPE
    simulated "$work/$1.log" "$1" few verify --backend opencl --only operations --small --effort 0 -q \
        >"$work/$1.out" 2>&1
    judge "operations, $1 shape" $? "$work/$1.log" "$work/$1.out"
}

# Every method of the program, with small values for the options that count entries. METHOD:OPTION comes before OPTION,
# and - leaves the option out. A method for prompts is joined with one that only decodes or selects, while there are
# both.
small=' budget=4 window=2 kernel=3 chunk=2 page=2 history=3 pseudo=3 head=1 tsp=4 span=1 lag=2 probe=2 every=1 sinks=1
    recent=1 stats=drawn duo:file=every-other qfilter:file=drawn dms:file=drawn lagkv:sinks=0 simlayerkv:threshold=0
    cam:span=2 cam:prompt=merge hsa:budget=- hsa:dims=3 hsa:topk=2 '
"$kvcull" info methods --json | awk -v small="$small" '
    function value(key) { # the text after KEY= in `small`
        return match(small, "[ \n]" key "=[^ \n]*") ? substr(small, RSTART + length(key) + 2, RLENGTH - length(key) - 2) : ""
    }
    function add(option,  text) {
        text = value(name ":" option)
        if (text == "") text = value(option)
        if (text == "" || text == "-") return
        spec = spec mark option "=" text
        mark = ","
    }
    /^  "common_options"/ { exit }
    { gsub(/[",]/, " ") }
    /^       name / { name = spec = $3; mark = ":" }
    /^       stages / { stages = $3 $4 }
    /^           name / { add($3) }
    name == "kvzap" || name == "fastkvzip" { next } # they need a model
    /^    }/ && stages == "none" && name != "full" { spec = "knorm:budget=4+" spec } # merges what another evicts
    /^    }/ { print (stages ~ /^(prompt|chunk)$/ ? "prompt" : stages ~ /^(decode|select)$/ ? "after" : "both"), spec }
' >"$work/methods"
[ "$(wc -l <"$work/methods")" -ge 20 ] || { echo 'not ok: info methods lists fewer than 20'; exit 1; }
one() { sed -n "s/^$1 //p" "$work/methods" >"$work/$1"; }
one both && one prompt && one after
specs="$(cat "$work/both") $(paste -d+ "$work/prompt" "$work/after" | sed 's/^+//; s/+$//')"
# A dump of 2 layers and 2 query heads on one KV head; 5 rows are the prompt, one is a decode step.
dump=$work/dump.safetensors
"$build/tests/cli/make_dump" "$dump" 2 6 2 1 4 $(for l in 0 1; do
    echo "layers.$l.pseudo_q:3:2:4 layers.$l.pseudo_k:3:1:4 layers.$l.probe_q.0:2:2:4 layers.$l.probe_q.1:2:2:4"
done) || exit 4
again=$work/again.safetensors # pseudo rows that are as many as the prompt's
"$build/tests/cli/make_dump" "$again" 2 6 2 1 4 $(for l in 0 1; do
    echo "layers.$l.pseudo_q:5:2:4 layers.$l.pseudo_k:5:1:4"
done) || exit 4

method() { # SPEC
    at=$work/$1
    mkdir "$at"
    case $1 in kvzip* | kvcompose*) from=$again ;; *) from=$dump ;; esac
    run="replay --kv $1 --prompt 5 --in $from -q"
    "$kvcull" $run --backend ref --out "$at/ref.json" --attn "$at/ref.out" >"$at/out" 2>&1 ||
        { echo "not ok method $1: ref: $(tail -n 1 "$at/out")"; return; }
    simulated "$at/log" narrow none $run --backend opencl --out "$at/json" --attn "$at/tensors" >"$at/out" 2>&1
    status=$?
    if [ $status = 0 ] && ! { cmp -s "$at/ref.json" "$at/json" && cmp -s "$at/ref.out" "$at/tensors"; }; then
        echo "not ok method $1: other bits than ref's"
    else
        judge "method $1" $status "$at/log" "$at/out"
    fi
}

# broken NAME WORD: a run with a deliberate error must be reported, otherwise the results above would mean nothing.
broken() {
    mkdir "$work/broken-$2"
    XDG_CACHE_HOME=$work/broken-$2 most_errors=100000
    export XDG_CACHE_HOME
    simulated "$work/$2.log" narrow none replay --kv full --prompt 5 --in "$dump" -q --backend opencl \
        --out "$work/$2.json" >"$work/$2.out" 2>&1
    grep -q "$2" "$work/$2.log" && echo "ok $1" || echo "not ok $1: nothing found"
}
# Kernels without barriers.
races() { (OCLGRIND_BUILD_OPTIONS="$OCLGRIND_BUILD_OPTIONS -DKVC_BARRIER()=" && broken 'races are found' 'data race'); }
# Buffers that are not cleared when they are created.
unwritten() { (OMIT_FILLS=1 && export OMIT_FILLS && broken 'reads of what nobody wrote are found' ninitialized); }

# Each worker (at least two, or one per core) takes the next part that no other has taken.
worker() {
    for part in 'operations narrow' 'operations cpu' races unwritten $specs; do
        mkdir "$work/part $part" 2>/dev/null || continue
        case $part in
        operations* | races | unwritten) $part ;;
        *) method $part ;;
        esac >"$work/part $part/verdict"
    done
}
cores=$(nproc 2>/dev/null || echo 2)
[ $cores -gt 2 ] || cores=2
while [ $((cores -= 1)) -gt 0 ]; do worker & done
worker
wait
cat "$work"/part*/verdict
