# under AddressSanitizer and UBSan, in build/sanitize
check_sanitize() {
    build_in build/sanitize --enable-sanitizers 'CFLAGS=-O1 -g'
    run_tests sanitize build/sanitize
}
