# as configured by default (with no JOB: this, --intel, and --cuda where nvcc is)
check_plain() {
    build_in build
    run_tests plain build
}
