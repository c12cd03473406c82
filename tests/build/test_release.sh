#!/bin/sh
# `make release` gives the same bytes twice, a tarball with a correct checksum, and only the changes of its version.
cd "$top_srcdir" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
source=$PWD
build=$(cd - >/dev/null && cd "$top_builddir" && pwd)
tar --sort=name --version >/dev/null 2>&1 && command -v sha256sum >/dev/null || { echo 'no GNU tar, or no sha256sum'; exit 77; }
work=$(mktemp -d) || exit 99
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }
for number in 1 2; do
    (umask 02$((number * 2 + 1)) # a different umask each time
    make -s -C "$build" distdir distdir="$work/tree$number" top_distdir="$work/tree$number" >"$work/log" 2>&1) ||
        { cat "$work/log"; exit 1; }
    find "$work/tree$number" -name '*.md' -exec touch {} +
    sh "$source/tools/release.sh" --draft --source "$work/tree$number" "$source" "$work/release$number" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
done
diff -r "$work/release1" "$work/release2" || fail 'two releases of the same tree differ'
cd "$work/release1" || exit 1
sha256sum -c --quiet kvcull-*.sha256 || fail 'a checksum is wrong'
[ "$(tar -tzf kvcull-*.tar.gz | sed 's|/.*||' | sort -u)" = "$(basename kvcull-*.tar.gz .tar.gz)" ] || fail 'not one folder'
tar -tzf kvcull-*.tar.gz | grep -q '/configure$' || fail 'no configure'
[ "$(grep -c '^## ' kvcull-*.notes.md)" = 1 ] || fail 'the notes are not those of one version'
[ "$(tar -tvzf kvcull-*.tar.gz | awk '{ print $2, $4, $5 }' | sort -u | wc -l)" = 1 ] || fail 'owners or times differ'
# A version that is not ready is refused.
sed 's/^## \([0-9.]*\) .*/## \1 (not released)/' "$work/tree1/CHANGELOG.md" >"$work/log" && cp "$work/log" "$work/tree1/CHANGELOG.md"
sh "$source/tools/release.sh" --source "$work/tree1" "$source" "$work/none" 2>"$work/log" && fail 'a version without a day is released'
grep -q 'must end in its day' "$work/log" || fail "another refusal: $(cat "$work/log")"
[ ! -e "$work/none" ] || fail 'something was written'
# A version with a date is released and tagged, but only from a clean checkout.
sed 's/^## \([0-9.]*\) .*/## \1 (2026-01-31)/' "$work/tree1/CHANGELOG.md" >"$work/log" && cp "$work/log" "$work/tree1/CHANGELOG.md"
cd "$work" && git init -q checkout || exit 99
for variable in AUTHOR COMMITTER; do
    export "GIT_${variable}_NAME=nobody" "GIT_${variable}_EMAIL=nobody@kvcull.invalid"
done
git -C checkout commit -q --allow-empty -m 'A release' || exit 99
sh "$source/tools/release.sh" --tag --source tree1 checkout tagged >log 2>&1 || { cat log; fail 'no release with a tag'; }
version=$(basename tagged/kvcull-*.notes.md .notes.md)
[ "$(git -C checkout tag -l --format='%(contents)' "v${version#kvcull-}")" = "$(cat tagged/kvcull-*.notes.md)" ] ||
    fail 'the tag does not say the notes'
: >checkout/more
sh "$source/tools/release.sh" --source tree1 checkout none 2>log && fail 'a checkout with changes is released'
grep -q 'changes that no commit has' log || fail "another refusal: $(cat log)"
