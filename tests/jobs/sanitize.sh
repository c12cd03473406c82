# under AddressSanitizer and UBSan, in build/sanitize: all code with fewer cases; run with --plain
check_sanitize() {
    local only
    build_in build
    configured build/sanitize --enable-sanitizers 'CFLAGS=-O1 -g'
    sh tests/jobs/lib/unused.sh build build/sanitize
    build_in build/sanitize --enable-sanitizers 'CFLAGS=-O1 -g'
    # Tests of the tree, of the build and of several processes look at nothing that sanitizers change.
    only=$(make -s --no-print-directory -C build/sanitize list-tests |
        grep -v '^tests/\(build\|tools\|ranks\|python\)/.*\.sh$\|^examples/')
    [ -n "${KVCULL_TEST_WHOLE-}" ] || export KVCULL_TEST_THINNED=1
    run_tests sanitize build/sanitize
    unset KVCULL_TEST_THINNED
}
