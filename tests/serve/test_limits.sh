#!/bin/sh
# Failures around the server: invalid bodies, disconnecting clients, little memory, used ports, keys.
. "${top_srcdir:-.}/tests/serve/lib.sh"

# ---- refused requests, and clients that disconnect
serve plain -m "$demo" --template chatml --name demo --body 100k --queue 4 --connections 300 -q
client test_limits.py "$url" refusals
port=${url##*:}
fails 4 "port $port: .*--port" serve -m "$demo" --template chatml --port "$port" -q
kill -TERM $pid
wait $pid
that 'it has ended well' [ $? = 0 ]

# ---- memory: requests that never fit, must wait, or are rejected
serve small -m "$demo" --template chatml --mem 2800k --wait 60 --keep 4 -q
client test_limits.py "$url" waits
serve hasty -m "$demo" --template chatml --mem 2800k --wait 0 -q
client test_limits.py "$url" sent_away

serve slow -m "$demo" --mem 8M -q
client test_limits.py "$url" slow
serve late -m "$demo" --mem 128M -q
client test_limits.py "$url" late

# ---- waiting requests
if [ -r /proc/self/status ] && ! sanitized; then # sanitizers use memory of their own
    serve waiting -m "$demo" --batch 1 --queue 60 --wait 3600 -q
    client test_limits.py "$url" waiting $pid
fi

# ---- keys
printf '# of two people\nfirst-key\n\nsecond-key-2\n' >"$work/keys"
serve keyed -m "$demo" --template chatml --api-key-file "$work/keys" \
    --allow-host models.example.org -q
client test_limits.py "$url" keys
printf 'a key with blanks\n' >"$work/bad"
fails 3 'line 1: a key must' serve -m "$demo" --template chatml --api-key-file "$work/bad" --port 0
: >"$work/bad"
fails 3 'no keys; the file' serve -m "$demo" --template chatml --api-key-file "$work/bad" --port 0

# ---- a second signal ends it at once
"$python" "$source/tests/serve/test_limits.py" "$url" hold >"$work/held" 2>&1 &
holder=$!
for _ in $(seq 200); do [ -s "$work/held" ] && break; sleep 0.05; done
kill -TERM $pid
for _ in $(seq 200); do "$python" "$source/tests/serve/test_limits.py" "$url" refuses && break; sleep 0.05; done
kill -0 $pid 2>/dev/null
that 'it finishes what has begun' [ $? = 0 ]
kill -TERM $pid
wait $pid
that 'a second signal ends it at once' [ $? = 143 ]
kill $holder 2>/dev/null
wait $holder 2>/dev/null

fails 2 'no model' serve
fails 2 '--host' serve -m "$demo" --template chatml --host 300.1.1.1
fails 2 'kv' serve -m "$demo" --template chatml --kv nothing
finish
