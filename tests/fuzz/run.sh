#!/bin/sh
# run.sh SOURCES SECONDS [NAME...] - builds and runs the fuzz targets in ./fuzz-build. A finding stops it with status 1
# and leaves the input in fuzz-build/findings/.
set -eu
top=$1 seconds=$2
shift 2
[ -n "${FUZZ_CC-}" ] || { echo 'make fuzz needs clang (Debian: apt-get install clang)' >&2; exit 4; }
names=${*-}
if [ -z "$names" ]; then
    for file in "$top"/tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        names="$names ${name%.c}"
    done
fi
mkdir -p fuzz-build/findings
cd fuzz-build
sanitize='-fsanitize=address,undefined -fno-sanitize-recover=all'
options='--disable-shared --enable-static --disable-simd --without-openblas --without-opencl'
if [ ! -e Makefile ] || [ "$(cat options 2>/dev/null)" != "$options" ]; then
    echo 'configuring and building the library with clang (configure.log, build.log in fuzz-build)'
    "$top/configure" CC="$FUZZ_CC" CFLAGS="-O1 -g -fsanitize=fuzzer-no-link $sanitize" $options >configure.log 2>&1 || {
        tail configure.log >&2
        exit 4
    }
    echo "$options" >options
fi
make -j"$(nproc)" libkvc.la libkvcli.la >build.log 2>&1 || { tail -n 30 build.log >&2; exit 1; }
for name in $names; do
    $FUZZ_CC -std=gnu11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer $sanitize -I"$top" -I"$top/include" -o "fuzz_$name" \
        "$top/tests/fuzz/fuzz_$name.c" .libs/libkvcli.a .libs/libkvc.a -pthread $(pkg-config --libs jansson libpcre2-8 libutf8proc) -lm
    mkdir -p "corpus/$name"
    seeds=$top/tests/fuzz/seeds/$name
    [ -d "$seeds" ] || seeds=
    dict=
    if [ -f "$top/tests/fuzz/$name.dict" ]; then
        dict=-dict=$name.dict
        cp "$top/tests/fuzz/$name.dict" "$name.dict"
        [ "$name" != policy ] || sed 's/KVC_POLICY(\(.*\))/"\1:"/; s/_/-/g' policies/list.def >>"$name.dict"
    fi
    echo "$name: $seconds s"
    ./"fuzz_$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        $dict -artifact_prefix=findings/"$name"- "corpus/$name" $seeds >"$name.log" 2>&1 || {
        tail -n 40 "$name.log" >&2
        echo "$name: found something; the input is in $PWD/findings" >&2
        exit 1
    }
    sed -n 's/^stat::number_of_executed_units: */    inputs tried: /p' "$name.log"
done
