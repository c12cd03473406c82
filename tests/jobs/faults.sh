# every memory request of every command fails, one after another (--plain tests a sample)
check_faults() {
    build_in build
    only=tests/cli/test_faults.sh settings=KVCULL_FAULTS=0 limit=10000 run_tests faults build
}
