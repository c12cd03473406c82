#!/bin/sh
# What the page asks the server: the methods, forecasts, the progress of prompts, and which tokens a cache has lost.
. "${top_srcdir:-.}/tests/serve/lib.sh"

tools_template "$work/template"
serve plain -m "$demo" --chat-template-file "$work/template" --name demo --mem 256M --ctx 900 --kv snapkv:budget=48 -q
client test_kvcull.py "$url" "$program" snapkv:budget=48
serve many -m "$demo" --mem 256M --ctx 2048 -q
client test_kvcull.py "$url" many

# ---- with keys, a client without one learns nothing
echo secret >"$work/keys"
serve keys -m "$demo" --mem 64M --api-key-file "$work/keys" -q
client test_kvcull.py "$url" keys
finish
