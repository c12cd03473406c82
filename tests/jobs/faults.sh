# every memory request of every command fails, one after another (--plain tests a sample)
check_faults() {
    build_in build
    step 'building the tests of build' build/build-tests.log make -C build -j"$jobs" check TESTS=
    local start=$SECONDS log=build/faults.log before=$failed status
    find build -maxdepth 3 -name 'test_faults.trs' -exec rm -f {} +
    KVCULL_FAULTS=0 make -C build check TESTS=tests/cli/test_faults.sh </dev/null >$log 2>&1
    status=$?
    say "faults: $((SECONDS - start)) s"
    count build/tests/cli
    [ $status = 0 ] || show_failures build
    [ $status = 0 ] || [ $failed != $before ] || { tail -n 30 $log >&2; failed=$((failed + 1)); }
}
