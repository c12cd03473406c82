#!/bin/sh
# A short run of each command under valgrind; skipped without it, because the other tests do more.
. "${top_srcdir:-.}/tests/cli/lib.sh"
[ -n "${KVCULL_VALGRIND-}" ] || { echo 'elsewhere: ./dev check --valgrind runs this'; exit 77; }
words='then the old sailor found the red kettle .'

fails 2 'no such option' run --frobnicate
fails 2 'kv snapkv' run -m "$demo" --kv snapkv:budget=0
fails 3 'none' run -m "$work/none"
ok run --help
ok info methods morphkv --json
ok info "$demo" --kv snapkv:budget=64
ok run -m "$demo" -p "$words" -p "$words" -n 4 --temp 1 --json --stop 'x' --kv 'morphkv:budget=12,window=4'
printf 'root ::= (" " word){3} | end\nword ::= [a-y]+\nend ::= "."' >"$work/words.gbnf"
ok run -m "$demo" -p "$words" -p "$words" -n 4 --temp 1 --grammar "$work/words.gbnf"
printf 'root ::= "a" |\n end\n' >"$work/wrong.gbnf"
fails 3 'line 2: the rule end is not defined' run -m "$demo" --grammar "$work/wrong.gbnf"
printf 'then\nthe\n' >"$work/lines"
kv chat -m "$demo" --template chatml --system 'the sailor' -n 3 <"$work/lines" >"$work/out" 2>"$work/err"
that 'a chat in valgrind' [ $? = 0 ]
ok mkmodel --shape tiny --type q8_0 -o "$work/tiny.gguf" -q
ok convert "$demo" -o "$work/demo.gguf" --type f16 -q
ok tokenize -m "$work/demo.gguf" --json "$words"
ok logits -m "$work/tiny.gguf" --tokens 1,2,3,4,5,6 --prompt 3 --out "$work/logits.safetensors"
"$build/tests/cli/make_dump" "$work/dump.safetensors" 2 20 4 2 8 || exit 1
ok replay --kv 'snapkv:budget=12,window=4,kernel=3' --prompt 15 --in "$work/dump.safetensors" --out "$work/kept.json" \
    --attn "$work/attn.safetensors"
for i in 1 2 3; do printf '%s ' "$words"; done >"$work/text"
ok perplexity -m "$demo" -f "$work/text" --ctx 12 --kv full --kv 'streaming:budget=5,sinks=1'
ok verify --only methods --kv 'morphkv:budget=20,window=8' --prompt 30 --gen 2 -q
ok verify --only methods --backend cpu --against stored --kv 'quest:budget=8,page=2' --prompt 20 --gen 1 -q
ok eval needle -m "$demo" --kv 'streaming:budget=32' --length 100 --texts 1 --depths 1 -q
finish
