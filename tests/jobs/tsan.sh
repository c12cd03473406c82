# multi-threaded code under ThreadSanitizer, in build/tsan
check_tsan() {
    local fixed before=$failed
    local only='tests/core/test_threads tests/core/test_session tests/core/test_session_memory tests/core/test_step'
    only="$only tests/backends/test_linear"
    need server && only="$only tests/serve/test_limits.sh tests/serve/test_serve.sh tests/serve/test_slots.sh"
    build_in build/tsan --enable-sanitizers=thread --with-opencl=no --with-openblas=no 'CFLAGS=-O2 -g'
    # older versions of gcc's and clang's ThreadSanitizer fail if the kernel randomizes addresses over a larger range
    # than they expect
    fixed=$(have setarch && setarch -R true 2>/dev/null && say 'setarch -R')
    through=$fixed settings=KVCULL_TEST_THINNED=1 at_once=1 run_tests tsan build/tsan
    [ $failed = "$before" ] || grep -hA12 'WARNING: ThreadSanitizer' build/tsan/test-suite.log | head -n 40 >&2
}
