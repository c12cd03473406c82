#!/bin/sh
# Silent connections: 10,000 of them, or as many as this machine lets a process open. Other clients are still answered,
# a connection beyond the limit is closed immediately, and each costs no more than its buffer.
. "${top_srcdir:-.}/tests/serve/lib.sh"
[ -r /proc/self/status ] || { echo 'no /proc to see memory in'; exit 77; }
sanitized && { echo 'elsewhere: ./dev check --plain measures memory; sanitizers take some of their own'; exit 77; }
most=$(ulimit -Hn)
[ "$most" = unlimited ] || [ "$most" -gt 10200 ] && most=10200
most=$((most - 200))
[ $most -ge 100 ] || { echo "too few open files: $(ulimit -Hn)"; exit 77; }
ulimit -Sn 256 # the server raises this limit
serve idle -m "$demo" --connections $most -q
client test_connections.py "$url" idle $most $pid
grep KiB "$work/client"
serve each -m "$demo" --connections-each 5 -q
client test_connections.py "$url" each
finish
