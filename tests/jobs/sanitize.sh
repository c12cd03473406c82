# all code under AddressSanitizer and UBSan, with fewer cases, in build/sanitize; --plain includes it
check_sanitize() {
    local only
    build_in build
    configured build/sanitize --enable-sanitizers 'CFLAGS=-O1 -g'
    sh tests/jobs/lib/unused.sh build build/sanitize
    build_in build/sanitize --enable-sanitizers 'CFLAGS=-O1 -g'
    # Left out: tests of the tree, of the build and of several processes, because sanitizers change nothing for them.
    only=$(make -s --no-print-directory -C build/sanitize list-tests |
        grep -v '^tests/\(build\|tools\|ranks\|python\)/.*\.sh$\|^examples/')
    if [ -z "${KVCULL_TEST_WHOLE-}" ]; then
        # Of the scripts, only those run that give bad input to the server and to the program.
        only=$(say "$only" |
            grep -v '\.sh$\|/test_real$' && say tests/serve/test_{serve,fields,http,fork}.sh tests/cli/test_{errors,saved}.sh)
        export KVCULL_TEST_THINNED=1
    fi
    run_tests sanitize build/sanitize
    unset KVCULL_TEST_THINNED
}
