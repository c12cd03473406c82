# the default configuration
check_plain() {
    build_in build
    python_packages large
    run_tests plain build
}
