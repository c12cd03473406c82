#!/bin/sh
# run.sh BUILD - runs the same program built with -Ofast for this machine, for aarch64 (NEON) and for riscv64 (plain C),
# and here and on aarch64 also with a host that flushes denormals to zero (riscv64 cannot). All must print the same
# hashes. Also runs the operations, those without integers with few cases, on an aarch64 without integer dot products,
# with them, and with matrix products.
# Big-endian machines and those with 32-bit sizes must be refused with the reason. Prints "ok", "not ok" or "skip"
# lines. BUILD: the folder of a finished build. Run it in the top source folder.
set -u
build=$1
out=$build/cross
. tests/cross/lib.sh

# cross ARCH: builds and runs the driver for another machine.
cross() {
    build_driver "$1" ARCH="$1" CC="$1-linux-gnu-gcc" || return
    run "$1" "qemu-$1" "$out/$1/driver"
    compare "$1"
    [ "$1" != riscv64 ] || return 0
    run "$1-flush-operations" "qemu-$1" "$out/$1/driver" flush $some # native-flush has the whole runs
    compare "$1-flush-operations"
}

# emulated CPU PATH: runs the operations on an aarch64 with only that CPU's features; it must choose that path.
emulated() {
    name=aarch64-$1-operations
    [ -x "$out/aarch64/driver" ] || return
    run "$name" qemu-aarch64 -cpu "$1" "$out/aarch64/driver" $some
    compare "$name"
    grep -q "($2," "$out/$name.log" || echo "not ok $name: it ran $(cat "$out/$name.log"), not $2"
}

# The worst CFLAGS that a user could give to configure and to make.
fast_math() {
    mkdir -p "$out/ofast"
    flags='-Ofast -march=native'
    if ! { (cd "$out/ofast" && { [ -e Makefile ] || "$top/configure" CFLAGS=-Ofast; }) &&
        sh tests/jobs/lib/unused.sh "$build" "$out/ofast" &&
        make -C "$out/ofast" -j"$jobs" CFLAGS="$flags" tests/cross/driver; } >"$out/ofast.build" 2>&1; then
        tail -n 15 "$out/ofast.build"
        echo "not ok ofast: does not build ($out/ofast.build)"
        return
    fi
    run ofast "$out/ofast/tests/cross/driver"
    compare ofast
}

# refused HOST REASON: configure stops and gives the reason; so do the sources alone.
refused() {
    compiler=$1-gcc
    command -v "$compiler" >/dev/null || { echo "skip $1: no $compiler"; return; }
    mkdir -p "$out/$1"
    # CC would name the compiler of this machine.
    if (cd "$out/$1" && env -u CC "$top/configure" --host="$1") >"$out/$1.log" 2>&1 ||
        ! grep -q "configure: error: .*$2" "$out/$1.log"; then
        tail -n 3 "$out/$1.log"
        echo "not ok $1: configure does not say '$2' ($out/$1.log)"
    elif echo '#include "core/base/ops.h"' | "$compiler" -I. -Iinclude -fsyntax-only -x c - 2>"$out/$1.log" ||
        ! grep -q "error: .*$2" "$out/$1.log"; then
        echo "not ok $1: core/base/ops.h compiles, or does not say '$2' ($out/$1.log)"
    else
        echo "ok $1: refused, $2"
    fi
}

top=$PWD
some='operations light threads=1'
native
run native-operations "$build/tests/cross/driver" $some
refused s390x-linux-gnu big-endian
refused i686-linux-gnu '32-bit sizes'
{
    cross aarch64
    emulated max neoni8mm
    emulated cortex-a76 neondotprod
    emulated cortex-a53 neon
} >"$out/aarch64.result" &
{ cross riscv64 >"$out/riscv64.result"; } &
run native-flush "$build/tests/cross/driver" flush
compare native-flush
fast_math
wait
cat "$out/aarch64.result" "$out/riscv64.result"
