#!/bin/sh
# Many questions about one compressed text, and a server that continues cached sessions by default (--cache-prompt).
. "${top_srcdir:-.}/tests/serve/lib.sh"
serve goes_on -m "$demo" --template chatml --kv snapkv:budget=64 --cache-prompt -q
client test_fork.py "$url"
serve anew -m "$demo" --template chatml --kv snapkv:budget=64 --keep 0 -q
client test_fork.py "$url" keeps_nothing
serve means -m "$demo" --template chatml --kv-type q4h -q
client test_fork.py "$url" means
finish
