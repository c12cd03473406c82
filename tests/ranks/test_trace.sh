#!/bin/sh
# test_trace.sh - traces of several processes: a mutant of an operation on rank 0 or on rank 1 is the first difference,
# for tensor, pipeline and data parallelism; a trace of one process can be compared with a trace of two.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
. "${top_srcdir:-.}/tests/cli/trace_runs.sh"

trace_models
${CC:-cc} -shared -fPIC -D_GNU_SOURCE -I"$source/include" -o "$work/wrong.so" "$source/tests/ranks/wrong_rank.c" \
    -ldl || bad 'wrong_rank.c does not compile'
traced "$work/one" demo snapkv:budget=66 || bad 'no run of one process'

kv() { # the run on two processes, other commands on one
    case $1 in
    logits) timeout 300 $start -n 2 "$each" "$@" --ranks "$how" ;;
    *) "$program" "$@" ;;
    esac
}
all_runs=$runs
for how in tensor pipeline; do
    traced "$work/two" demo snapkv:budget=66 || bad "no run with --ranks $how"
    that "a file of rank 1" [ -s "$work/two.rank1" ]
    kv trace compare "$work/one" "$work/two" >"$work/out" 2>"$work/err"
    status=$?
    if [ $status = 0 ]; then good; else bad "one process and two with --ranks $how: exit $status"; fi
    has '^no difference in [0-9]* outputs'
    runs=$(printf '%s\n' "$all_runs" | grep '^\(linear\|rope\|attention\|append\|norm\|add\|keep\|evict\|expert_sum\|ring_fuse\|linear_int8\) ')
    trace_each
    # A fault on rank 1 alone. Rank 0 differs later, because it gets what rank 1 has computed from the wrong result.
    set -- "$each" logits -m "$demo" --tokens "@$work/tokens" --prompt 290 --kv snapkv:budget=66 --kv-type f32 \
        --ranks "$how" -q --trace "$work/mutant.trace"
    timeout 300 $start -n 1 "$@" : -n 1 env LD_PRELOAD="$work/wrong.so" WRONG_RANK=rope "$@" \
        >"$work/out" 2>"$work/err" </dev/null || bad "no run of --ranks $how with a mutant on rank 1"
    "$program" trace compare "$work/two" "$work/mutant.trace" >"$work/out" 2>"$work/err"
    has '^rank 1: first difference: .* operation rope, '
    that "no difference of rope on rank 0 with --ranks $how" sh -c '! grep -q "^rank 0: .* rope" "$1"' - "$work/out"
done

head -c 2000 "$source/LICENSE" >"$work/text"
set -- "$each" perplexity -m "$demo" -f "$work/text" --ctx 64 --ranks data -q --trace
timeout 300 $start -n 2 "$@" "$work/clean.trace" >"$work/out" 2>"$work/err" </dev/null || bad 'no run with --ranks data'
timeout 300 $start -n 1 "$@" "$work/mutant.trace" : -n 1 env KVCULL_INJECT=rope "$@" "$work/mutant.trace" \
    >"$work/out" 2>"$work/err" </dev/null || bad 'no run with a mutant on rank 1'
"$program" trace compare "$work/clean.trace" "$work/mutant.trace" >"$work/out" 2>"$work/err"
has '^rank 1: first difference: .* operation rope, '
that 'no difference on rank 0' sh -c '! grep -q "^rank 0:" "$1"' - "$work/out"
has 'mutant.trace.rank1 line '
finish
