# the CUDA backend, for one kind of device; run with --plain if nvcc is installed
usable_cuda() {
    have nvcc || [ -x /usr/local/cuda/bin/nvcc ]
}

# Compiles and links everything. The tests run on an emulated device, and on a real one if the machine has one.
check_cuda() {
    local start=$SECONDS log=build/cuda/check.log status before=$failed
    usable_cuda || { complain 'no nvcc in PATH or /usr/local/cuda/bin'; exit 4; }
    build_in build/cuda --with-cuda --with-cuda-arch=90
    step 'building the tests of build/cuda' build/cuda/build-tests.log make -C build/cuda -j"$jobs" \
        tests/backends/test_cuda tests/backends/test_cuda_memory
    find build/cuda -name '*.trs' -exec rm -f {} +
    make -C build/cuda -k check-TESTS TESTS='tests/backends/test_cuda tests/backends/test_cuda_memory tests/backends/test_cuda_device.sh tests/backends/test_cuda_ptx.sh' \
        </dev/null >$log 2>&1
    status=$?
    say "cuda: $((SECONDS - start)) s"
    count build/cuda
    [ $status = 0 ] || show_failures build/cuda
    [ $status = 0 ] || [ $failed != $before ] || { tail -n 30 $log >&2; failed=$((failed + 1)); }
}
