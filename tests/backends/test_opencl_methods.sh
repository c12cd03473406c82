#!/bin/sh
# The tests of methods against their oracles on the OpenCL backend, with fewer cases than on cpu.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
kv verify --backend opencl --only methods --kv full --prompt 3 --gen 1 -q >"$work/out" 2>"$work/err"
if [ $? = 4 ]; then
    cat "$work/err"
    echo 'skipped: no OpenCL device that can be exact'
    exit 77
fi
KVCULL_TEST_BACKEND=opencl KVCULL_TEST_THINNED=yes
export KVCULL_TEST_BACKEND KVCULL_TEST_THINNED
programs='policies/test_methods policies/test_methods_layers policies/test_methods_mass policies/test_methods_reads
    policies/test_methods_rows policies/test_methods_scores policies/test_methods_select policies/test_methods_take
    policies/test_fastkv core/test_cache_positions core/test_formula core/test_prompt_many core/test_extra_slots'
# The programs left out test the engine, which is also tested on the CPU.
in_full || programs='policies/test_methods_mass policies/test_methods_rows policies/test_methods_scores
    policies/test_methods_select policies/test_methods_take'
sanitized && programs='policies/test_methods_mass policies/test_methods_select policies/test_methods_take'
for program in $programs; do
    "$build/tests/$program" >"$work/out" 2>&1
    that "$program on OpenCL" [ $? = 0 ]
done
finish
