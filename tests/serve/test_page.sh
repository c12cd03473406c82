#!/bin/sh
# The page at / in a browser: conversations, with real keys and pointers and the page's own security policy in force.
. "${top_srcdir:-.}/tests/serve/lib.sh"
a_browser
serve plain -m "$demo" --template chatml --name demo --kv snapkv:budget=64+streaming:budget=96,sinks=2 -q
open=$url
echo right >"$work/keys"
serve locked -m "$demo" --template chatml --name demo --kv duo:file=every-other,sinks=3,recent=63 --api-key-file "$work/keys" -q
client page_chat.py "$browser" "$open" "$work" "$url"
finish
