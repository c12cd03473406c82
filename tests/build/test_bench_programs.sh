#!/bin/sh
# The programs of bench/, which no other test runs, build and run. The test ignores the measured numbers.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
[ -z "${SANITIZE_FLAGS-}" ] || { echo 'elsewhere: ./dev check --plain runs this; sanitizers leave nothing to measure'; exit 77; }
make -C "$build" bench/attention bench/int8 bench/linear bench/prefill bench/select >"$work/out" 2>"$work/err"
that 'they build' [ $? = 0 ]
runs() { # WANTED PROGRAM ARGUMENTS...
    wanted=$1
    shift
    "$build/bench/$@" >"$work/out" 2>"$work/err"
    that "bench/$*: status 0" [ $? = 0 ]
    that "bench/$*: a table" grep -q "$wanted" "$work/out"
}
runs '^| f16 ' attention 1 decode
runs '^| f16 .* quest ' select 1 1024 1
runs '^| attention ' prefill 1 tiny q8_0 int8 600
runs '^| q4_k ' int8 1 16 1 1
runs 'f16' linear --threads 1 --quick --rounds 1 few
finish
