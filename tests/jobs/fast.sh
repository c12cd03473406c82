# the default configuration with fewer cases, without the slowest tests (runs if no JOB is given)
usable_fast() { false; } # --all has --plain
check_fast() {
    local only slow left_out
    # The tests that are left out: whole runs on OpenCL; an emulated GPU; failures of every memory request; reports and
    # forecasts, which run the program many times; ranks that divide layers, use devices or are stopped; traces of
    # OpenCL and of ranks; tests that only a release or a benchmark needs.
    slow=$(printf 'tests/%s\n' backends/test_opencl_runs.sh backends/test_opencl_trace.sh backends/test_cuda \
        backends/test_cuda_ptx.sh build/test_release.sh cli/test_faults.sh \
        cli/test_verify.sh ranks/test_devices.sh ranks/test_pipeline.sh ranks/test_ranks_data.sh \
        ranks/test_stopped.sh ranks/test_trace.sh real/test_real tools/test_beside_llama.sh \
        tools/test_device_report.sh tools/test_gpu_check.sh tools/test_ranks_plan.sh)
    build_in build
    python_packages
    only=$(make -s --no-print-directory -C build list-tests)
    left_out=$(say "$only" | grep -cxF "$slow")
    only=$(say "$only" | grep -vxF "$slow")
    settings=KVCULL_TEST_THINNED=1 run_tests fast build
    say "    not in this check: $left_out slow tests and repeated cases; ./dev check --plain runs them"
}
