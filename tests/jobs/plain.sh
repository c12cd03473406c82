# the default configuration (without JOB: this, --intel, and --cuda if nvcc is installed)
check_plain() {
    build_in build
    python_packages
    run_tests plain build
}
