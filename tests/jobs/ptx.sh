# nvcc's output for the CUDA kernels, for every architecture that configure chooses by default
usable_ptx() { usable_cuda; }

check_ptx() {
    local start=$SECONDS before=$failed status
    usable_ptx || { complain 'no nvcc in PATH or /usr/local/cuda/bin'; exit 4; }
    build_in build/cuda --with-cuda --with-cuda-arch=90
    find build/cuda -name '*.trs' -exec rm -f {} +
    KVCULL_PTX_ARCH=default make -C build/cuda -k check-TESTS TESTS=tests/backends/test_cuda_ptx.sh \
        </dev/null >build/cuda/ptx.log 2>&1
    status=$?
    say "ptx: $((SECONDS - start)) s"
    count build/cuda
    [ $status = 0 ] || show_failures build/cuda
    [ $status = 0 ] || [ $failed != $before ] || { tail -n 30 build/cuda/ptx.log >&2; failed=$((failed + 1)); }
}
