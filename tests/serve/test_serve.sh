#!/bin/sh
# Answers of the server: they equal those of `kvcull run`, with any other requests, streamed or not.
. "${top_srcdir:-.}/tests/serve/lib.sh"

serve plain -m "$demo" --template chatml --name demo --mem 256M -q
client test_serve.py "$url" "$program" "$demo"

# ---- the end: running requests are completed, new ones are refused
"$python" - "$url" >"$work/last" 2>&1 <<'END' &
import http.client, json, sys, urllib.parse
parts = urllib.parse.urlsplit(sys.argv[1])
connection = http.client.HTTPConnection(parts.hostname, parts.port)
connection.request('POST', '/v1/completions', json.dumps({'prompt': 'the', 'max_tokens': 600, 'ignore_eos': True,
                   'stream': True}), {'Content-Type': 'application/json'})
answer = connection.getresponse()
print(answer.readline().decode()[:5], flush=True)
print(answer.read().decode()[-8:].strip())
END
last=$!
for _ in $(seq 200); do [ -s "$work/last" ] && break; sleep 0.05; done
kill -TERM $pid
wait $last
that 'an answer that has begun is finished' [ "$(tail -n 1 "$work/last")" = '[DONE]' ]
wait $pid
that 'the server has ended well' [ $? = 0 ]
that 'quietly' [ ! -s "$work/plain.err" ]
finish
