#!/bin/sh
# abi.sh - dumps the shared library's interface with abidw, and compares it with a stored one with abidiff
# (abigail-tools).
#
#     tools/abi.sh dump LIBRARY SOURCE        writes SOURCE/packaging/abi/kvcull-VERSION-MACHINE.abi
#     tools/abi.sh compare STORED LIBRARY INCLUDE
#
# compare exits with 1 if a function was removed or a type changed, so that a program built for the stored interface
# could not use the library. Additions do not count. Exit status 77: abigail-tools are not installed.
set -eu
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo 'no abigail-tools'; exit 77; }
# describe LIBRARY INCLUDE FILE: dumps the interface, without paths and line numbers, and with only the types of the
# headers.
describe() {
    abidw --headers-dir "$2" --drop-private-types --drop-undefined-syms --no-show-locs --no-corpus-path \
        --no-comp-dir-path --type-id-style hash --out-file "$3" "$1"
}
case $1 in
dump)
    version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' "$3/include/kvcull.h")
    mkdir -p "$3/packaging/abi"
    describe "$2" "$3/include" "$3/packaging/abi/kvcull-$version-$(uname -m).abi"
    ;;
compare)
    now=$(mktemp) && trap 'rm -f "$now"' EXIT
    describe "$3" "$4" "$now"
    status=0
    abidiff --no-added-syms "$2" "$now" || status=$?
    # bits: 1 error, 2 wrong usage, 4 a change, 8 an incompatible change
    [ $((status & 3)) = 0 ] || exit 99
    [ $status = 0 ]
    ;;
*) echo "abi.sh: dump or compare, not '$1'" >&2; exit 2 ;;
esac
