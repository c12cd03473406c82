# the tests under valgrind
check_valgrind() {
    provide valgrind
    build_in build
    settings=KVCULL_VALGRIND=1 limit=3000 \
        through="$PWD/build/libtool --mode=execute valgrind -q --error-exitcode=99 --leak-check=full" run_tests valgrind build
}
