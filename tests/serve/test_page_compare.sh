#!/bin/sh
# Two methods side by side in the page at /: forecasts equal what is held, and each token says when and where it was
# lost.
. "${top_srcdir:-.}/tests/serve/lib.sh"
a_browser
serve plain -m "$demo" --template chatml --name demo --kv snapkv:budget=64 -q
client page_compare.py "$browser" "$url" "$work"
finish
