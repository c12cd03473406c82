# functions, lines and branches that no test reaches, by gcov, in build/coverage
usable_coverage() { have gcc && have gcov && have python3; }

# The list is for reading: what it names is dead, or an error that no test provokes.
check_coverage() {
    local only never=build/coverage/never.txt folders='core policies models serve cli eval backends/cpu ranks bench'
    usable_coverage || { complain 'no gcc, gcov or python3'; exit 4; }
    build_in build/coverage CC=gcc 'CFLAGS=-Og --coverage'
    find build/coverage -name '*.gcda' -delete
    python_packages
    # Tests of the tree, the build and devices run nothing of these folders that others do not.
    only=$(make -s --no-print-directory -C build/coverage list-tests |
        grep -v '^tests/\(build\|real\)/\|^tests/backends/.*\(opencl\|cuda\)\|/test_install')
    # Programs whose files may not grow cannot write their counts either, and must not say so among their own errors.
    settings="GCOV_ERROR_FILE=$PWD/build/coverage/gcov.log KVCULL_TEST_SIGNAL=TERM" limit=3000 \
        run_tests coverage build/coverage
    # shellcheck disable=SC2086
    python3 tests/jobs/lib/never.py build/coverage $folders >$never || exit 4
    say "$(wc -l <$never) places that these tests never reach: $PWD/$never"
}
