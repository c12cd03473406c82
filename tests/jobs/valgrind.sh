# under valgrind
check_valgrind() {
    provide valgrind
    build_in build
    export KVCULL_VALGRIND=1
    run_tests valgrind build "$PWD/build/libtool" --mode=execute valgrind -q --error-exitcode=99 --leak-check=full
    unset KVCULL_VALGRIND
}
