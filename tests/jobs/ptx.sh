# nvcc's output for the CUDA kernels, for every architecture that configure chooses by default
usable_ptx() { usable_cuda; }

check_ptx() {
    usable_ptx || { complain 'no nvcc in PATH or /usr/local/cuda/bin'; exit 4; }
    build_in build/cuda --with-cuda --with-cuda-arch=90
    only=tests/backends/test_cuda_ptx.sh settings=KVCULL_PTX_ARCH=default limit=3000 run_tests ptx build/cuda
}
