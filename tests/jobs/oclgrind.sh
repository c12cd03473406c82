# OpenCL kernels in an interpreter that finds races, uninitialized reads and invalid accesses
check_oclgrind() {
    local start=$SECONDS log=build/oclgrind/check.log
    provide oclgrind opencl
    build_in build
    step 'building what makes dumps' build/make-dump.log within make -C build -j"$jobs" tests/cli/make_dump
    mkdir -p build/oclgrind
    within tests/oclgrind/run.sh build </dev/null >$log 2>&1 || say 'not ok run.sh ended early' >>$log
    say "oclgrind: $((SECONDS - start)) s"
    count_lines oclgrind $log
}
