# equal hashes from gcc, clang, musl-gcc, C11, C23, -O0 to -Ofast and LTO
check_compilers() {
    local start=$SECONDS log=build/compilers/check.log
    provide clang musl-gcc
    build_in build
    build_in build/clang CC=clang
    mkdir -p build/compilers
    within tests/cross/compilers.sh build build/clang >$log 2>&1 ||
        grep -q '^not ok' $log || say "not ok: compilers.sh ended early" >>$log
    say "compilers: $((SECONDS - start)) s"
    count_lines compilers $log
}
