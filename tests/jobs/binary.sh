# makes the files of a release twice, compares them, and runs them without other software (x86_64, with a network)
usable_binary() { [ "$(uname -m)" = x86_64 ] && have xz && have python3; }

# files_of DIR: builds in DIR, then makes the files of a release in DIR/release.
files_of() {
    build_in "$1"
    within make -C "$1" release RELEASE_FLAGS=--draft </dev/null >"$1/release.log" 2>&1 && return
    if grep -q 'cannot be downloaded\|binary: pip failed\|no Debian mirror' "$1/release.log"; then
        skip binary "$(grep '^binary: ' "$1/release.log" | head -n 1)"
    else
        failure "binary: make release failed in $1"
        tail -n 30 "$1/release.log" >&2
    fi
    return 1
}

check_binary() {
    local start=$SECONDS
    usable_binary || { complain 'it needs an x86_64 machine, xz and python3'; exit 4; }
    files_of build && files_of build/again || return
    say "binary: $((SECONDS - start)) s"
    if cmp build/release/kvcull-*.sha256 build/again/release/kvcull-*.sha256; then
        add 1 0 0
    else
        failure 'binary: build/release and build/again/release differ'
    fi
    only=tests/build/test_binary.sh run_tests binary build
}
