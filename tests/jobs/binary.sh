# the binary files of a release: make binary builds them, and each runs without anything else (x86_64, with a network)
usable_binary() { [ "$(uname -m)" = x86_64 ] && have xz && have python3; }

check_binary() {
    local start=$SECONDS log=build/binary.log
    usable_binary || { complain 'it needs an x86_64 machine, xz and python3'; exit 4; }
    build_in build
    if ! within make -C build binary </dev/null >$log 2>&1; then
        if grep -q 'cannot be downloaded\|binary: pip failed\|no Debian mirror' $log; then
            say "binary: $((SECONDS - start)) s"
            skip binary "$(grep '^binary: ' $log | head -n 1)"
        else
            failure 'binary: make binary failed'
            tail -n 30 $log >&2
        fi
        return
    fi
    say "binary: $((SECONDS - start)) s"
    only=tests/build/test_binary.sh run_tests binary build
}
