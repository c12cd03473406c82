#!/bin/sh
# Methods beside obvious code on OpenCL: the tests of methods, on that backend, each with fewer cases than on cpu.
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
programs='test_methods test_methods_layers test_methods_mass test_methods_reads test_methods_rows test_methods_scores
    test_methods_select test_methods_take test_fastkv test_places test_formula test_spares'
sanitized && programs='test_methods_mass test_methods_select test_methods_take'
for program in $programs; do
    that "$program on OpenCL" "$build/tests/$program" >"$work/out" 2>&1
done
finish
