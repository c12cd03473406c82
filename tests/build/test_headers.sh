#!/bin/sh
# Every header of backends/cpu/simd parses alone, so that an editor shows no false errors in it. A header that is compiled
# for several instruction sets has default parameters for this purpose. A .c file that defines only a part of them, or a
# compiler without vectors, gets a message that says what is missing.
cd "$top_srcdir" || exit 1
folder=backends/cpu/simd
build=$(cd "$top_builddir" && pwd)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wno-unused -Wno-unknown-pragmas -Werror"
avx2="-mavx2 -mfma -mf16c"
avx512="-mavx512f -mavx512bw -mavx512dq -mavx512vl $avx2"

# parse COMPILER OPTIONS FILE: parses FILE as C.
parse() {
    # shellcheck disable=SC2086
    $1 -std=gnu11 -D_GNU_SOURCE -I. -Iinclude -I"$build" $warnings $2 -fsyntax-only -x c "$3"
}

# alone COMPILER OPTIONS INTRINSICS HEADERS: parses each header. Most of the time would go into the compiler's own header,
# so it is precompiled.
alone() {
    rm -rf "$work/first" && mkdir "$work/first"
    echo "#include <$3>" >"$work/first/intrinsics.h"
    # shellcheck disable=SC2086
    $1 -std=gnu11 -D_GNU_SOURCE $2 -x c-header "$work/first/intrinsics.h" -o "$work/first/intrinsics.h.gch" \
        2>"$work/error" || rm -f "$work/first/intrinsics.h.gch"
    for header in $4; do
        echo "#include \"$header\"" >"$work/alone.c"
        parse "$1" "$2 -include $work/first/intrinsics.h" "$work/alone.c" 2>"$work/error" && continue
        echo "$header does not parse alone (with $1 $2):"
        sed 's/^/    /' "$work/error" | head -5
        bad=1
    done
}

# refused COMPILER OPTIONS TEXT MESSAGE: the compiler must refuse TEXT with MESSAGE.
refused() {
    printf '%b' "$3" >"$work/refused.c"
    if parse "$1" "$2" "$work/refused.c" 2>"$work/error" || ! grep -q "#error \"$4" "$work/error"; then
        echo "without an error that says \"$4\", $1 $2 parses: $3"
        bad=1
    fi
}

headers=$(find "$folder" -name '*.h' | sort)
of_x86=$(echo "$headers" | grep -E "/int(8|16)/[^/]*[.]h$|/lanes/avx2[.]h$" |
    grep -vE '/int8/(int8|small_batch)[.]h$|512|neon')
of_avx512=$(echo "$headers" | grep -E '512|/amx/')
of_neon=$(echo "$headers" | grep neon)
of_all=$(echo "$headers" | grep -vxF "$of_x86
$of_avx512
$of_neon")
compiler=${CC-cc} cross=${CROSS_CC-aarch64-linux-gnu-gcc}
bad=0
# shellcheck disable=SC2086
case $($compiler -dumpmachine) in
x86_64*)
    alone "$compiler" "$avx2" immintrin.h "$of_all
$of_x86"
    alone "$compiler" "$avx512" immintrin.h "$of_avx512 $folder/linear/template.h $folder/int8/template.h"
    refused "$compiler" -mno-avx "#include \"$folder/rows.h\"\n" "no vectors"
    refused "$compiler" "$avx2" "#include \"$folder/lanes/avx512.h\"\n" "lanes/avx512.h needs"
    refused "$compiler" "$avx2" "#define PATH avx2\n#include \"$folder/int8/template.h\"\n" "int8/<path>.c must define"
    command -v "$cross" >/dev/null && alone "$cross" "" arm_neon.h "$of_neon $folder/linear/template.h"
    ;;
aarch64*)
    alone "$compiler" "" arm_neon.h "$of_all
$of_neon"
    refused "$compiler" "" "#define PATH neon\n#include \"$folder/int8/neon/template.h\"\n" "int8/<path>.c must define"
    ;;
*)
    echo "no vectors for this machine"
    exit 77
    ;;
esac
exit $bad
