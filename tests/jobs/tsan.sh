# multi-threaded code under ThreadSanitizer, in build/tsan
check_tsan() {
    local start log=build/tsan/check.log before=$failed status fixed scripts=
    local programs='tests/core/test_threads tests/core/test_session tests/core/test_session_memory tests/core/test_step'
    programs="$programs tests/backends/test_linear"
    need server && scripts='tests/serve/test_limits.sh tests/serve/test_serve.sh tests/serve/test_slots.sh'
    build_in build/tsan --enable-sanitizers=thread --with-opencl=no --with-openblas=no 'CFLAGS=-O2 -g'
    # shellcheck disable=SC2086
    step 'building the tests of build/tsan' build/tsan/build-tests.log make -C build/tsan -j"$jobs" $programs kvcull
    find build/tsan -name '*.trs' -exec rm -f {} +
    start=$SECONDS
    # older versions of gcc's and clang's sanitizer fail if the kernel randomizes addresses more than they expect
    fixed=$(have setarch && setarch -R true 2>/dev/null && say 'setarch -R')
    KVCULL_TEST_THINNED=1 make -C build/tsan -k check-TESTS TESTS="$programs $scripts" check_PROGRAMS="$programs" \
        LOG_COMPILER="$fixed" SH_LOG_COMPILER="$fixed ${BASH:-/bin/sh}" </dev/null >$log 2>&1
    status=$?
    say "tsan: $((SECONDS - start)) s"
    count build/tsan
    [ $status = 0 ] || { grep -hA12 'WARNING: ThreadSanitizer' build/tsan/test-suite.log | head -n 40 >&2; show_failures build/tsan; }
    [ $status = 0 ] || [ $failed != $before ] || { tail -n 30 $log >&2; failed=$((failed + 1)); }
}
