# functions that no test program of core, policies and models enters, by gcov, in build/coverage
usable_coverage() { have gcc && have gcov && have python3; }

# The list is for reading: a function that is dead, or an error that no test provokes. Scripts, traces and runs of several
# processes enter some of them.
check_coverage() {
    usable_coverage || { complain 'no gcc, gcov or python3'; exit 4; }
    build_in build/coverage CC=gcc --disable-simd --disable-shared --with-opencl=no 'CFLAGS=-O1 --coverage'
    find build/coverage -name '*.gcda' -delete
    only=$(make -s --no-print-directory -C build/coverage list-tests | grep -E '^tests/(core|policies|models)/[a-z_]*$') \
        settings=KVCULL_TEST_THINNED=1 run_tests coverage build/coverage
    python3 tests/jobs/lib/never.py build/coverage core policies models >build/coverage/never.txt || exit 4
    say "$(wc -l <build/coverage/never.txt) functions that these tests never enter: $PWD/build/coverage/never.txt"
}
