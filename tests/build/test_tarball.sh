#!/bin/sh
# Every file of a checkout is in the tarball, but those that only a checkout uses.
cd "$top_srcdir" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
build=$(cd - >/dev/null && cd "$top_builddir" && pwd)
work=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
make -s -C "$build" distdir distdir="$work/tree" top_distdir="$work/tree" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
git ls-files | grep -v -E '^\.(ci/|gitignore)' | while read -r file; do
    [ ! -f "$file" ] || [ -f "$work/tree/$file" ] || echo "$file is not in the tarball: must stand in a .mk file"
done >"$work/missing"
[ ! -s "$work/missing" ] || { cat "$work/missing"; exit 1; }
