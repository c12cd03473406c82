# lists functions, lines and branches that no test reaches (gcov), in build/coverage
usable_coverage() { have gcc && have gcov && have python3; }

# The list is for people to read. It names dead code, and handlers of errors that no test provokes.
check_coverage() {
    local only never=build/coverage/never.txt folders='core policies models serve cli eval backends/cpu ranks bench'
    usable_coverage || { complain 'no gcc, gcov or python3'; exit 4; }
    build_in build/coverage CC=gcc 'CFLAGS=-Og --coverage'
    find build/coverage -name '*.gcda' -delete
    python_packages
    # Left out: tests of the tree, the build and devices. They run no code of these folders that other tests do not run.
    only=$(make -s --no-print-directory -C build/coverage list-tests |
        grep -v '^tests/\(build\|real\)/\|^tests/backends/.*\(opencl\|cuda\)\|/test_install')
    # Tests that limit the size of files also stop gcov from writing its counts. GCOV_ERROR_FILE keeps its messages
    # apart from the program's own errors.
    settings="GCOV_ERROR_FILE=$PWD/build/coverage/gcov.log KVCULL_TEST_SIGNAL=TERM" limit=3000 \
        run_tests coverage build/coverage
    # shellcheck disable=SC2086
    python3 tests/jobs/lib/never.py build/coverage $folders >$never || exit 4
    say "$(wc -l <$never) places that these tests never reach: $PWD/$never"
}
