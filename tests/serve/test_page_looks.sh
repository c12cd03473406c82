#!/bin/sh
# The looks of the page at /, at two widths, light and dark: contrasts, labels, the keyboard; pictures go to
# PAGE_PICTURES.
. "${top_srcdir:-.}/tests/serve/lib.sh"
a_browser
serve plain -m "$demo" --template chatml --name demo --kv snapkv:budget=64 -q
client page_looks.py "$browser" "$url" "$work" "${PAGE_PICTURES:-$work}"
grep '^no axe' "$work/client"
finish
