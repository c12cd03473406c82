#!/bin/sh
# HTTP: requests that a proxy could read differently, HEAD, pages of other sites, and the log.
. "${top_srcdir:-.}/tests/serve/lib.sh"
serve plain -m "$demo" --template chatml --name the/demo --cors-origin https://app.example \
    --cors-origin http://localhost:3000 -q
client test_http.py "$url"
that 'there is no log' [ ! -s "$work/plain.err" ]
serve logged -m "$demo" --template chatml --cors-origin '*' --log -q
client test_http.py "$url" "$work/logged.err"

# ---- what the server decides
export KVCULL_LOG=info,server
serve decides -m "$demo" --template chatml --batch 1 -q
unset KVCULL_LOG
"$python" - "$source/tests/serve" "$url" >"$work/out" 2>"$work/err" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from client import Server
server = Server(sys.argv[2])
server.complete(prompt=[5, 5, 5], max_tokens=1, ignore_eos=True)
server.complete(prompt=[[5, 5, 5, 5], [6, 6]], max_tokens=1, ignore_eos=True)
END
that 'two requests' [ $? = 0 ]
cp "$work/decides.err" "$work/err"
that 'an answer is admitted' grep -q '^kvcull: info: server: request 1, answer 0 admitted with full: 3 prompt tokens, 0 from a cached session; [1-9][0-9]* bytes reserved' "$work/err"
that 'it continues a session' grep -q 'server: request 2, answer 0 admitted with full: 4 prompt tokens, 3 from a cached session' "$work/err"
that 'it waits for the other, which is said once' [ "$(grep -c 'server: request 2 waits: 1 answers run, as many as --batch permits' "$work/err")" = 1 ]
that 'there is nothing else' [ "$(grep -vc '^kvcull: info: server: request ' "$work/err")" = 0 ]

# ---- pages of other sites: none without the option, all of them with *
serve closed -m "$demo" --template chatml -q
"$python" - "$source/tests/serve" "$url" >"$work/out" 2>"$work/err" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from client import Server
server = Server(sys.argv[2])
asks = {'Origin': 'https://app.example', 'Access-Control-Request-Method': 'POST'}
status, headers, _ = server.send('OPTIONS', '/v1/completions', None, asks)
assert status == 405 and headers['Access-Control-Allow-Origin'] is None and headers['Vary'] is None
assert server.send('GET', '/health', None, asks)[1]['Access-Control-Allow-Origin'] is None
END
that 'no page of another site is let in' [ $? = 0 ]
serve open -m "$demo" --cors-origin '*' -q
"$python" - "$source/tests/serve" "$url" >"$work/out" 2>"$work/err" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from client import Server
server = Server(sys.argv[2])
asks = {'Origin': 'https://app.example', 'Access-Control-Request-Method': 'POST'}
assert server.send('OPTIONS', '/v1/completions', None, asks)[1]['Access-Control-Allow-Origin'] == '*'
assert server.send('GET', '/health', None, asks)[1]['Access-Control-Allow-Origin'] == '*'
END
that 'all pages are let in' [ $? = 0 ]
for origin in example.org https://example.org/ https://example.org/chat https:// 'https://a b' 'https://*.example.org' \
    'a,https://example.org' ''; do
    fails 2 '--cors-origin' serve -m "$demo" --cors-origin "$origin"
done
finish
