# libFuzzer on every reader and on policies, for some seconds each
check_fuzz() {
    local start=$SECONDS log=build/fuzz.log status
    provide clang fuzzer
    build_in build
    within make -C build fuzz FUZZ_CC=clang FUZZ_SECONDS="${FUZZ_SECONDS:-10}" </dev/null >$log 2>&1
    status=$?
    say "fuzz: $((SECONDS - start)) s"
    [ $status = 0 ] || tail -n 40 $log >&2
    add "$(grep -c 'inputs tried' $log)" 0 0
    [ $status = 0 ] || failure "fuzz: $PWD/$log"
}
