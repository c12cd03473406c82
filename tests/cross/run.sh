#!/bin/sh
# run.sh BUILD - the same program here, built with -Ofast, for aarch64 (NEON) and for riscv64 (plain C), each also with
# a host that flushes denormals to zero; every one must print the same hashes. Prints "ok", "not ok" or "skip" lines.
# BUILD: the folder of a finished build; run in the top source folder.
set -u
build=$1
out=$build/cross
jobs=$(nproc 2>/dev/null || echo 2)
mkdir -p "$out"
: >"$out/results"

# The families' small models, as arguments of the driver.
goldens=$(for file in tests/data/golden/*/model.gguf; do echo "golden=$file"; done)

# run NAME COMMAND...: its hashes go to NAME.hashes. None takes more than some minutes; one that hangs must not stop all.
run() {
    name=$1
    shift
    timeout 900 "$@" $goldens "$out/$name.gguf" >"$out/$name.hashes" 2>"$out/$name.log" || echo "failed: status $?" >>"$out/$name.hashes"
}

# compare NAME: with what this machine's build printed.
compare() {
    if cmp -s "$out/native.hashes" "$out/$1.hashes"; then
        echo "ok $1: $(wc -l <"$out/$1.hashes") lines equal ($(cat "$out/$1.log"))"
    else
        echo "not ok $1: other hashes than here, or it failed ($out/$1.hashes, $1.log)"
        diff "$out/native.hashes" "$out/$1.hashes" | head -n 6
        tail -n 3 "$out/$1.log"
    fi
}

# cross ARCH: builds and runs it for another machine.
cross() {
    if ! make -f tests/cross/cross.make -j"$jobs" ARCH="$1" CC="$1-linux-gnu-gcc" OUT="$out/$1" >"$out/$1.build" 2>&1; then
        tail -n 15 "$out/$1.build"
        echo "not ok $1: does not build ($out/$1.build)"
        return
    fi
    run "$1" "qemu-$1" "$out/$1/driver"
    compare "$1"
    run "$1-flush" "qemu-$1" "$out/$1/driver" flush threads=1
    compare "$1-flush"
}

# The user's worst CFLAGS, given to configure and to make.
fast_math() {
    mkdir -p "$out/ofast"
    flags='-Ofast -march=native'
    if ! { (cd "$out/ofast" && { [ -e Makefile ] || "$top/configure" CFLAGS=-Ofast; }) &&
        make -C "$out/ofast" -j"$jobs" CFLAGS="$flags" tests/cross/driver; } >"$out/ofast.build" 2>&1; then
        tail -n 15 "$out/ofast.build"
        echo "not ok ofast: does not build ($out/ofast.build)"
        return
    fi
    run ofast "$out/ofast/tests/cross/driver"
    compare ofast
}

top=$PWD
make -C "$build" tests/cross/driver >"$out/native.build" 2>&1 || { tail "$out/native.build"; echo "not ok native: does not build"; exit 1; }
run native "$build/tests/cross/driver"
if [ ! -s "$out/native.hashes" ] || grep -q failed "$out/native.hashes"; then
    cat "$out/native.log"
    echo "not ok native: the driver failed"
    exit 1
fi
{ cross aarch64 >"$out/aarch64.result"; } &
{ cross riscv64 >"$out/riscv64.result"; } &
run native-flush "$build/tests/cross/driver" flush
compare native-flush
wait
cat "$out/aarch64.result" "$out/riscv64.result"
fast_math
