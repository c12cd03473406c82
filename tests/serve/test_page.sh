#!/bin/sh
# The page at / in a browser: conversations, with real keys and pointers and the page's own security policy in force.
. "${top_srcdir:-.}/tests/serve/lib.sh"
a_browser
serve plain -m "$demo" --template chatml --name demo --kv snapkv:budget=64+streaming:budget=96,sinks=2 -q
client page_chat.py "$browser" "$url" "$work"
finish
