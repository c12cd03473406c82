#!/bin/sh
# Two ranks in each mode under valgrind: no errors and no leaks, except known ones of MPI.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
[ -n "${KVCULL_TEST_WHOLE-}" ] || { echo 'elsewhere: ./dev check --ranks runs this'; exit 77; }
command -v valgrind >/dev/null || { echo 'there is no valgrind'; exit 77; }
"$MPIRUN" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' || { echo 'elsewhere: MPICH has no list of suppressions; Open MPI is tested'; exit 77; }
suppressions=$(find /usr/share/openmpi /usr/local/share/openmpi -name openmpi-valgrind.supp 2>/dev/null | head -n 1)
[ -n "$suppressions" ] || { echo "Open MPI's suppressions are not installed"; exit 77; }

# watched RANKS WHAT ARGUMENTS...: no rank has a report.
watched() {
    count=$1 what=$2
    shift 2
    rm -f "$work"/valgrind.*
    timeout 300 $start -n "$count" "$build/libtool" --mode=execute valgrind -q --leak-check=full --error-exitcode=99 \
        --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions="$suppressions" \
        --suppressions="$source/tests/ranks/mpi.supp" --log-file="$work/valgrind.%p" "$program" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
    cat "$work"/valgrind.* >"$work/err"
    that "$what: exit $status" [ $status = 0 ]
}
for how in '2 tensor' '2 pipeline' '4 tensor=2,pipeline=2'; do
    # shellcheck disable=SC2086
    watched ${how% *} "$how" run -m "$demo" -p 'the magic number for lantern' -n 3 -q --threads 1 \
        --kv take:budget=66,chunk=64,probe=8 --ranks ${how#* }
done
watched 2 data perplexity -m "$demo" -f "$demo/README.md" --ctx 24 --threads 1 --ranks data -q
finish
