# as configured by default (also when no JOB is given)
check_plain() {
    build_in build
    run_tests plain build
}
