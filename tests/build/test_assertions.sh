#!/bin/sh
# A build without assertions has no code of them; a build with assertions has many; kvcull info tells which it is.
# A file of the library is compiled both ways, whichever of the two this build is.
library=$top_builddir/.libs/libkvc.a
command -v nm >/dev/null && [ -e "$library" ] || { echo "no nm or no $library"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
calls() { nm "$1" 2>/dev/null | grep -c ' U kvc_assert_failed$'; }

for wanted in yes no; do
    mkdir "$work/$wanted"
    grep -v KVC_ASSERTIONS "$top_builddir/config.h" >"$work/$wanted/config.h"
    [ $wanted = no ] || echo '#define KVC_ASSERTIONS 1' >>"$work/$wanted/config.h"
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -include "$work/$wanted/config.h" -I"$top_srcdir" -I"$top_srcdir/include" -O1 \
        -c "$top_srcdir/core/engine/cache.c" -o "$work/$wanted/cache.o" || fail 'core/engine/cache.c does not compile'
done
[ "$(calls "$work/yes/cache.o")" = 1 ] || fail 'core/engine/cache.c with assertions has none'
[ "$(calls "$work/no/cache.o")" = 0 ] || fail 'core/engine/cache.c without assertions has some'
! grep -q 'assert' "$work/no/cache.o" || fail 'core/engine/cache.c without assertions has their text'

files=$(calls "$library")
if grep -q '^#define KVC_ASSERTIONS 1' "$top_builddir/config.h"; then
    said=on
    [ "$files" -ge 100 ] || fail "only $files files of the library have assertions"
else
    said=off
    [ "$files" = 0 ] || fail "$files files of the library have assertions, which configure switched off"
fi
"$top_builddir/kvcull" info >"$work/info" || exit 1
grep -q "^kvcull .*, assertions $said$" "$work/info" || { cat "$work/info"; fail "kvcull info does not say: assertions $said"; }
"$top_builddir/kvcull" info --json >"$work/json" || exit 1
case $said in on) value=true ;; *) value=false ;; esac
grep -q "\"assertions\": $value" "$work/json" || { cat "$work/json"; fail "kvcull info --json does not say: assertions $value"; }
