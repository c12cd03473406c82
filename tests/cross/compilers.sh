#!/bin/sh
# compilers.sh BUILD CLANG - compares hashes between compilers, language standards and flags: the part that needs only
# libc by gcc, clang and musl-gcc, and all of kvcull by clang. Prints "ok", "not ok" or "skip" lines. BUILD: the folder
# of a finished build; CLANG: of a build by clang. Run it in the top source folder.
set -u
build=$1
clang=$2
out=$build/compilers
. tests/cross/lib.sh

# variant NAME COMPILER STANDARD FLAGS [VARIABLE=VALUE...]: builds and runs the driver.
variant() {
    name=$1 compiler=$2 standard=$3 flags=$4
    shift 4
    if ! echo 'int main(void) { return 0; }' |
        $compiler -std="$standard" $flags -static -x c -o /dev/null - 2>/dev/null; then
        echo "skip $name: no $compiler here that links with -std=$standard $flags"
        return
    fi
    build_driver "$name" ARCH="$(uname -m)" CC="$compiler" STD="$standard" FLAGS="$flags" "$@" || return
    run "$name" "$out/$name/driver"
    compare "$name"
}

# header COMPILER: compiles each public header alone, with every warning for the standards.
header() {
    command -v "$1" >/dev/null || { echo "skip header-$1: no $1"; return; }
    for header in kvcull.h kvcull/chat.h kvcull/grammar.h kvcull/policy.h kvcull/saved.h kvcull/check.h; do
        for standard in c11 c2x; do
            echo "#include <$header>" |
                "$1" -std=$standard -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c - ||
                { echo "not ok header-$1: include/$header has warnings in $standard"; return; }
        done
    done
    echo "ok header-$1: C11 and C23"
}

native
for compiler in gcc clang musl-gcc; do header $compiler; done
variant gcc-O0 gcc gnu11 -O0
variant gcc-O3 gcc gnu2x '-O3 -march=native'
variant gcc-Ofast gcc gnu11 '-Ofast -march=native -ffp-contract=fast'
variant gcc-lto gcc gnu2x '-O2 -flto=auto' AR=gcc-ar
variant clang-O0 clang gnu2x -O0
variant clang-O3 clang gnu11 '-O3 -march=native'
# Clang warns about the flag that overrides this one; the warning's name depends on its version.
overriding='-Wno-unknown-warning-option -Wno-overriding-t-option -Wno-overriding-option'
variant clang-Ofast clang gnu11 "-Ofast -march=native -ffp-contract=fast $overriding"
variant clang-lto clang gnu2x '-O2 -flto' AR=llvm-ar
variant musl musl-gcc gnu11 -O2

if "$clang/kvcull" verify --against stored >"$out/verify.log" 2>&1; then
    echo "ok clang: $(tail -n 1 "$out/verify.log")"
else
    tail -n 5 "$out/verify.log"
    echo "not ok clang: other hashes than data/hashes.txt ($out/verify.log)"
fi
