#!/bin/sh
# `make` wrote a manual page for every command, and for every method of tools/policy_list.sh and no other, and every page
# is well-formed. Where the program does not run, tools/manual.sh copies a tarball's pages, or says that they are left out.
top=$(cd "$top_srcdir" && pwd)
cd "$top_builddir" || exit 1
fail() { echo "$*"; exit 1; }
pages=$(ls docs/man/*.[17]) || fail 'no manual page in docs/man'
listed=$(sh "$top/tools/policy_list.sh" "$top" | sed 's/KVC_POLICY(\(.*\))/\1/' | tr _ - | sort)
there=$(echo "$pages" | sed -n 's|docs/man/kvcull-method-\(.*\)\.7|\1|p' | sort)
[ "$listed" = "$there" ] || fail "methods: $listed; their manual pages: $there"
for command in $(./kvcull --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [ -s "docs/man/kvcull-$command.1" ] || fail "no manual page of $command"
done
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/checkout" "$work/build"
sh "$top/tools/manual.sh" "$work/absent" "$work/checkout" "$work/build" >"$work/said" || fail 'no pages: must be no error'
grep -q 'does not run on this machine: manual pages and completions are left out' "$work/said" || fail "said: $(cat "$work/said")"
sh "$top/tools/manual.sh" "$work/absent" . "$work/build" || fail 'pages are not copied'
for folder in man completions; do
    diff -r "docs/$folder" "$work/build/docs/$folder" || fail "docs/$folder is not copied"
done
[ -n "$MANDOC" ] || { echo 'mandoc is not here'; exit 77; }
# shellcheck disable=SC2086
$MANDOC -Tlint -Wwarning $pages
