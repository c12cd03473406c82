#!/bin/sh
# test_opencl_trace.sh - traces of OpenCL equal the CPU's; a mutant of an operation is the first difference.
. "${top_srcdir:-.}/tests/cli/lib.sh"
. "${top_srcdir:-.}/tests/cli/trace_runs.sh"
not_in_valgrind
kv verify --backend opencl --only methods --kv full --prompt 3 --gen 1 -q >"$work/out" 2>"$work/err"
if [ $? = 4 ] && grep -q 'no device here\| cannot be exact: \|not in this build' "$work/err"; then
    cat "$work/err"
    echo 'skipped: no OpenCL device that can be exact'
    exit 77
fi

trace_models
for run in 'demo h2o:budget=66,per=head' 'demo sparq:budget=66' 'demo morphkv:budget=66' 'blocks-experts full' 'delta full'; do
    traced "$work/cpu" "${run% *}" "${run#* }" || bad "no run of $run"
    traced "$work/opencl" "${run% *}" "${run#* }" --backend opencl || bad "no run of $run on OpenCL"
    ok trace compare "$work/cpu" "$work/opencl"
    has '^no difference in [0-9]* outputs'
done
# Each operation takes a run of its own, so only some are in the short check.
in_full || runs=$(printf '%s\n' "$runs" | awk 'NR % 6 == 1')
trace_each --backend opencl
finish
