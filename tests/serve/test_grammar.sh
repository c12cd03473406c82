#!/bin/sh
# Answers in a given form: regular expressions and schemas, alone and together, streamed, cached, cut, refused.
. "${top_srcdir:-.}/tests/serve/lib.sh"
serve words -m "$demo" --template chatml --name demo --mem 64M --batch 6 -q
client test_grammar.py "$url" words
bytes_model "$work/bytes"
serve bytes -m "$work/bytes" --template chatml --name demo --mem 256M --batch 6 -q
client test_grammar.py "$url" bytes
that 'nothing went wrong' [ ! -s "$work/bytes.err" ]
finish
