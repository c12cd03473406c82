#!/bin/sh
# The comparison of interfaces detects a change, and the library is compatible with the interface that the last release
# stored in packaging/abi. Before the first release none is stored.
case ${SANITIZE_FLAGS-} in ?*) echo 'elsewhere: ./dev check --plain runs this; a sanitized library has another interface'; exit 77 ;; esac
command -v abidiff >/dev/null && command -v abidw >/dev/null || { echo 'no abigail-tools'; exit 77; }
library=$top_builddir/.libs/libkvcull.so
[ -e "$library" ] || { echo "no $library (static build)"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
abi=$top_srcdir/tools/abi.sh

# An additional member of a struct is detected; an additional function is compatible.
mkdir -p "$work/include" "$work/new"
printf '#define KVC_VERSION "1"\nstruct pair { int one; };\nint first(struct pair *pair);\n' >"$work/include/kvcull.h"
printf '#include "kvcull.h"\nint first(struct pair *pair) { return pair->one; }\n' >"$work/pair.c"
sed 's/int one;/int zero, one;/' "$work/include/kvcull.h" >"$work/new/kvcull.h"
printf 'int second(void);\nint second(void) { return 2; }\n' | cat "$work/pair.c" - >"$work/more.c"
make_library() { ${CC:-cc} -g -shared -fPIC -I"$work/$1" "$work/$2" -o "$work/$3"; }
make_library include pair.c old.so && make_library new pair.c changed.so && make_library include more.c grown.so ||
    { echo 'no compiler for shared libraries'; exit 77; }
sh "$abi" dump "$work/old.so" "$work" || exit 1
stored=$(echo "$work"/packaging/abi/kvcull-1-*.abi)
sh "$abi" compare "$stored" "$work/old.so" "$work/include" || { echo 'a library differs from itself'; exit 1; }
sh "$abi" compare "$stored" "$work/grown.so" "$work/include" || { echo 'a new function counts as a difference'; exit 1; }
! sh "$abi" compare "$stored" "$work/changed.so" "$work/new" >"$work/log" || { echo 'a changed struct is not seen'; exit 1; }

stored=$(ls "$top_srcdir"/packaging/abi/kvcull-*-"$(uname -m)".abi 2>/dev/null | tail -n 1)
[ -n "$stored" ] || { echo "no release stored an interface for $(uname -m)"; exit 0; }
sh "$abi" compare "$stored" "$library" "$top_srcdir/include" && exit 0
echo "programs built for the interface in $stored cannot use this library: raise -version-info in Makefile.am as libtool"
echo 'says, then make abi'
exit 1
