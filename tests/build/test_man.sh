#!/bin/sh
# Every manual page is well-formed and installed.
pages=$(cd "$top_srcdir" && ls docs/man/*.[17]) || { echo 'no manual page in docs/man'; exit 1; }
for page in $pages; do
    grep -q "$page\( \|\$\)" "$top_srcdir/docs/docs.mk" || { echo "$page is not in docs/docs.mk"; exit 1; }
done
[ -n "$MANDOC" ] || { echo 'mandoc is not here'; exit 77; }
cd "$top_srcdir" && $MANDOC -Tlint -Wwarning $pages
