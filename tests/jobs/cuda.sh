# the CUDA backend, for one kind of device; use together with --plain, if nvcc is installed
usable_cuda() {
    have nvcc || [ -x /usr/local/cuda/bin/nvcc ]
}

# Compiles and links everything. Tests check the code that nvcc made, and run it if there is a device. The job plain
# runs the same sources on an emulated device.
check_cuda() {
    usable_cuda || { complain 'no nvcc in PATH or /usr/local/cuda/bin'; exit 4; }
    build_in build/cuda --with-cuda --with-cuda-arch=90
    only='tests/backends/test_cuda_device.sh tests/backends/test_cuda_ptx.sh' run_tests cuda build/cuda
}
