#!/bin/sh
# The shared library exports exactly the functions of the public headers.
library=$top_builddir/.libs/libkvcull.so
[ -e "$library" ] || { echo "no $library (static build)"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
sh "$top_srcdir/tools/symbols.sh" "$top_srcdir/include/kvcull.h" "$top_srcdir"/include/kvcull/*.h >"$work/declared"
${NM-nm} -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | LC_ALL=C sort -u >"$work/exported"
[ "$(wc -l <"$work/declared")" -gt 50 ] || { echo "only $(wc -l <"$work/declared") functions found in the headers"; exit 1; }
diff "$work/declared" "$work/exported" && exit 0
echo "< declared in a public header but not exported, > exported but not declared"
exit 1
