#!/bin/sh
# Answers in a given form: regular expressions and schemas, alone and together, streamed, cached, cut, refused.
. "${top_srcdir:-.}/tests/serve/lib.sh"
export KVCULL_LOG=info,server
serve words -m "$demo" --template chatml --name demo --mem 64M --batch 6 -q
unset KVCULL_LOG
client test_grammar.py "$url" words
that 'the log tells why an answer is incomplete' \
    grep -q '^kvcull: info: server: request [0-9]*, answer 0 ends: no token keeps it within its grammar$' "$work/words.err"
bytes_model "$work/bytes"
serve bytes -m "$work/bytes" --template chatml --name demo --mem 256M --batch 6 -q
client test_grammar.py "$url" bytes
that 'nothing went wrong' [ ! -s "$work/bytes.err" ]
finish
