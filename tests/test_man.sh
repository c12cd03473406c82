#!/bin/sh
# Every manual page is well-formed, and every one the build knows is there.
[ -n "$MANDOC" ] || { echo 'mandoc is not here'; exit 77; }
pages=$(ls "$top_srcdir"/docs/man/*.1 2>/dev/null) || { echo 'no manual page in docs/man'; exit 1; }
$MANDOC -Tlint -Wwarning $pages
