#!/bin/sh
# The tarball has every file of a checkout, except those that only a checkout uses, and no built files but the pages
# that `make` writes.
cd "$top_srcdir" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
build=$(cd - >/dev/null && cd "$top_builddir" && pwd)
work=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
make -s -C "$build" distdir distdir="$work/tree" top_distdir="$work/tree" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
git ls-files | grep -v -E '^\.(ci/|gitignore)' | while read -r file; do
    [ ! -f "$file" ] || [ -f "$work/tree/$file" ] || echo "$file is not in the tarball: must stand in a .mk file"
done >"$work/wrong"
for page in docs/man/kvcull.1 docs/man/kvcull-methods.7 docs/completions/bash/kvcull; do
    [ -s "$work/tree/$page" ] || echo "$page is not in the tarball: must be made by manual.stamp"
done >>"$work/wrong"
(cd "$work/tree" && find . -name '*.o' -o -name '*.lo' -o -name '*.log' -o -name '*.trs' -o -name '*.stamp' -o -name __pycache__) |
    sed 's/$/ is in the tarball: EXTRA_DIST must not name the folder it is in/' >>"$work/wrong"
[ ! -s "$work/wrong" ] || { cat "$work/wrong"; exit 1; }
