#!/bin/sh
# With an NVIDIA device: every operation and method on it is bit-identical to ref. Without: the backend's messages.
kvcull=$top_builddir/kvcull
if "$kvcull" info backends | grep -q '^cuda .*no CUDA device'; then
    "$kvcull" verify --backend cuda >/dev/null 2>message
    status=$?
    [ $status = 4 ] || { echo "verify --backend cuda ended with $status, not 4"; exit 1; }
    [ "$(wc -l <message)" = 1 ] || { echo "not one line:"; cat message; exit 1; }
    cat message && rm -f message
    echo "skipped: no CUDA device"
    exit 77
fi
exec "$kvcull" verify --backend cuda --against stored # ref runs only where a hash differs
