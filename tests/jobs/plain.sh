# the default configuration
check_plain() {
    build_in build
    python_packages
    run_tests plain build
}
