# all code but the AVX-512 kernels under AddressSanitizer and UBSan, with fewer cases, in build/sanitize
check_sanitize() {
    local only settings='' sanitizers=--enable-sanitizers=no-avx512
    [ -z "${KVCULL_TEST_WHOLE-}" ] || sanitizers=--enable-sanitizers
    build_in build
    configured build/sanitize $sanitizers 'CFLAGS=-O1 -g1'
    sh tests/jobs/lib/unused.sh build build/sanitize
    build_in build/sanitize $sanitizers 'CFLAGS=-O1 -g1'
    # Left out: tests of the tree, of the build and of several processes, because sanitizers change nothing for them.
    only=$(make -s --no-print-directory -C build/sanitize list-tests |
        grep -v '^tests/\(build\|tools\|ranks\|python\)/.*\.sh$\|^examples/')
    if [ -z "${KVCULL_TEST_WHOLE-}" ]; then
        # Of the scripts, only those that give bad input to the server or the program are run. A driver's compiler takes
        # most of the time of test_opencl; test_opencl_arithmetic and test_device run the same host code.
        only=$(say "$only" | grep -v '\.sh$\|/test_real$\|/test_opencl$' &&
            say tests/serve/test_{serve,fields,http,fork}.sh tests/cli/test_{errors,saved}.sh)
        export KVCULL_TEST_THINNED=1
        # an instrumented instruction set
        ! grep -qw avx2 /proc/cpuinfo 2>/dev/null || settings=KVCULL_CPU=avx2
    fi
    run_tests sanitize build/sanitize
    unset KVCULL_TEST_THINNED
}
