#!/bin/sh
# test_trace.sh - traces of several processes: a mutant of an operation on rank 0 is the first difference, for tensor and
# pipeline parallelism; a trace of one process can be compared with a trace of two.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
. "${top_srcdir:-.}/tests/cli/trace_runs.sh"

trace_models
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
done
finish
