# lib.sh - shared by run.sh and compilers.sh, which source it in the top source folder with $build (a finished build)
# and $out (a folder to work in) set. Prints "ok", "not ok" and "skip" lines.
jobs=$(nproc 2>/dev/null || echo 2)
mkdir -p "$out"
# Warnings are errors if configure makes them errors.
case ${KVCULL_CONFIGURE-} in *--enable-werror*) werror=-Werror ;; *) werror= ;; esac

# The small models of the families, as arguments of the driver.
goldens=$(for file in tests/data/golden/*/model.gguf; do echo "golden=$file"; done)

# run NAME COMMAND...: writes its hashes to NAME.hashes. A command that hangs is stopped, because none needs more than
# some minutes. The library undoes a host program's flushing of denormals around each call, whatever model runs; so
# NAME-flush leaves out the families, and NAME-operations everything except the operations.
run() {
    name=$1
    shift
    case $name in *-flush | *-operations) models= ;; *) models=$goldens ;; esac
    timeout 900 "$@" $models "$out/$name.gguf" >"$out/$name.hashes" 2>"$out/$name.log" ||
        echo "failed: status $?" >>"$out/$name.hashes"
}

# compare NAME: compares the hashes with those of this machine's build, of the same cases (NAME-operations: the light
# ones).
compare() {
    like=native until=
    case $1 in *-flush) until='/^family /,$d' ;; *-operations) like=native-operations ;; esac
    if sed "$until" "$out/$like.hashes" | cmp -s - "$out/$1.hashes"; then
        echo "ok $1: $(wc -l <"$out/$1.hashes") lines equal ($(cat "$out/$1.log"))"
    else
        echo "not ok $1: other hashes than here, or it failed ($out/$1.hashes, $1.log)"
        sed "$until" "$out/$like.hashes" | diff - "$out/$1.hashes" | head -n 6
        tail -n 3 "$out/$1.log"
    fi
}

# native: computes the hashes with which all others are compared.
native() {
    make -C "$build" tests/cross/driver >"$out/native.build" 2>&1 ||
        { tail "$out/native.build"; echo "not ok native: does not build"; exit 1; }
    run native "$build/tests/cross/driver"
    if [ ! -s "$out/native.hashes" ] || grep -q failed "$out/native.hashes"; then
        cat "$out/native.log"
        echo "not ok native: the driver failed"
        exit 1
    fi
}

# build_driver NAME VARIABLE=VALUE...: builds $out/NAME with only a compiler and libc; the variables are those of
# cross.make.
build_driver() {
    name=$1
    shift
    make -f tests/cross/cross.make -j"$jobs" OUT="$out/$name" WERROR="$werror" "$@" >"$out/$name.build" 2>&1 && return
    tail -n 15 "$out/$name.build"
    echo "not ok $name: does not build ($out/$name.build)"
    return 1
}
