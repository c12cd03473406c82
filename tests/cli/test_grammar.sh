#!/bin/sh
# Answers that match a regular expression, a JSON schema or a grammar (GBNF): run and chat, greedy and drawn, errors.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

# The demo model's tokens are words and two-digit numbers. The tiny model, whose weights are random, also has bytes.
tiny=$work/tiny.gguf
kv mkmodel --shape tiny --type f16 --seed 7 -o "$tiny" -q || exit 1
question='the magic number for lantern 48 21 . question : the magic number for lantern'
cat >"$work/sum.gbnf" <<'END'
# a sum of one to three numbers
root   ::= " "? number (" "? "+" number){0,2}
number ::= [1-9] [0-9]{0,2}
END
cat >"$work/person.json" <<'END'
{"type": "object",
 "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
 "required": ["name", "age"], "additionalProperties": false}
END
sums='^ \{0,1\}[1-9][0-9]\{0,2\}\( \{0,1\}+[1-9][0-9]\{0,2\}\)\{0,2\}$'

# ---- the answer matches; without the option it does not
ok run -m "$demo" -p "$question" --temp 0 -n 12 -q
that 'the model would write more' sh -c "! grep -qx ' 48 21' '$work/out'"
ok run -m "$demo" -p "$question" --temp 0 -n 12 -q --regex ' [0-9]{2} [0-9]{2}'
is ' 48 21'
ok run -m "$demo" -p "$question" --temp 0 -n 12 --json --regex ' [0-9]{2} [0-9]{2}'
that 'the answer has ended' [ "$(json turns.0.stopped)" = 'end of turn' ]
that 'with two tokens' [ "$(json turns.0.tokens)" = '[2]' ]
ok run -m "$demo" -p "$question" --temp 0 -n 12 -q --regex ' the( [a-z]+)+ [0-9]{2}'
has '^ the\( [a-z]\{1,\}\)\{1,\} [0-9][0-9]$'
for seed in 1 2 3 4 5 6; do
    ok run -m "$tiny" -p sum --temp 1.5 --seed $seed -n 40 -q --grammar "$work/sum.gbnf"
    has "$sums"
    ok run -m "$tiny" -p person --temp 1.2 --seed $seed -n 400 -q --json-schema "$work/person.json"
    age=$(json age)
    that "a person of $age" [ "$age" -ge 0 -a "$age" -le 150 ]
    that 'with a name' json name >/dev/null
done
ok run -m "$tiny" -p person --temp 0 -n 400 -q --json-schema "$work/person.json"
that 'a person, greedily' [ "$(json age)" -ge 0 ]
kv run -m "$tiny" -p sum --temp 0 -n 40 -q --grammar - <"$work/sum.gbnf" >"$work/out" 2>"$work/err"
has "$sums"
ok run -m "$tiny" -p sum --temp 0 -n 40 -q --grammar-file "$work/sum.gbnf"
has "$sums"

# ---- the same seed gives the same tokens, whatever computes them
ok run -m "$tiny" -p sum --seed 9 -n 40 -q --grammar "$work/sum.gbnf"
answer=$(cat "$work/out")
for how in '--backend ref' '--threads 1' '--chunk 1' ''; do
    ok run -m "$tiny" -p sum --seed 9 -n 40 -q --grammar "$work/sum.gbnf" $how
    is "$answer"
done

# ---- every method; each answer of several turns
for policy in snapkv:budget=40 streaming:budget=16 h2o:budget=16 quest:budget=32 'snapkv:budget=40+morphkv:budget=40'; do
    ok run -m "$demo" -p "$question" -p 'and the color ?' -n 12 -q --kv "$policy" --regex ' [0-9 ]{5}'
    that "two answers with $policy" [ "$(grep -cx ' [0-9 ]\{5\}' "$work/out")" = 2 ]
done
printf '%s\n' "$question" 'and the color ?' hello >"$work/lines"
kv chat -m "$demo" --template chatml --kv snapkv:budget=40 --seed 3 -q --regex '[0-9]{2}( [0-9]{2}){1,2}' \
    <"$work/lines" >"$work/out" 2>"$work/err"
that 'three answers of a chat' [ "$(grep -cx '[0-9][0-9]\( [0-9][0-9]\)\{1,2\}' "$work/out")" = 3 ]
that 'and nothing else' [ "$(wc -l <"$work/out")" = 3 ]

# ---- ends: an end token comes only after a complete answer, and always if nothing may follow
ok run -m "$tiny" -p sum --temp 0 -n 40 --json --ignore-eos --regex 'a{3}'
that 'three letters' [ "$(json turns.0.text)" = aaa ]
that 'an end with --ignore-eos' [ "$(json turns.0.stopped)" = 'end of turn' ]
ok run -m "$tiny" -p sum --temp 0 -n 2 --json --regex 'a{3}'
that 'a cut answer' [ "$(json turns.0.stopped)" = length ]
ok run -m "$tiny" -p sum --temp 0 -n 2 --regex 'b{30}'
has '^(cut after 2 tokens, before it matched the grammar; -n sets the maximum)$' "$work/err"
ok run -m "$tiny" -p sum --temp 0 -n 2 --regex 'a*?'
has '^(cut after\|the answer is empty' "$work/err"
ok run -m "$tiny" -p sum -q --regex ''
has 'warning: the answer is empty, as the grammar allows' "$work/err"
ok run -m "$demo" -p "$question" --json -n 12 --regex ' 48 é+'
that 'a token that does not exist' [ "$(json turns.0.stopped)" = grammar ]
that 'the answer so far' [ "$(json turns.0.text)" = ' 48' ]
ok run -m "$demo" -p "$question" -q -n 12 --regex ' 48 é+'
has '^kvcull run: warning: the answer does not match the grammar: after 1 tokens, no token of the model continues it$' "$work/err"
that 'one line' [ "$(wc -l <"$work/err")" = 1 ]
ok run -m "$tiny" -p sum --temp 0 -n 40 --json --regex 'a+b+' --stop ab
that 'a stop text' [ "$(json turns.0.stopped)" = 'stop text' ]

# ---- saved sessions
ok run -m "$tiny" -p sum --temp 0 -n 1 -q --regex 'a{3}' --save "$work/saved"
fails 2 'does not contain the text of its answer so far' run -m "$tiny" --load "$work/saved" -q --regex 'a{3}'
ok run -m "$tiny" --load "$work/saved" -p more -q --regex 'b{3}'
is bbb

# ---- errors come before the model is opened
fails 2 'json-schema, --regex: give only one of them' run -m nosuch -p x --regex a --json-schema "$work/person.json"
fails 2 'regex, --grammar: give only one of them' chat -m nosuch --regex a --grammar "$work/sum.gbnf"
fails 2 '\-\-regex a(: regular expression, byte 2: ' run -m nosuch -p x --regex 'a('
for option in json-schema grammar; do
    fails 3 'nosuch: No such file' run -m nosuch -p x --$option "$work/nosuch"
    fails 3 'is a directory' chat -m nosuch --$option "$work"
    fails 3 'is 0, which a text cannot contain' run -m nosuch -p x --$option "$tiny"
    fails 2 'needs a value' run -m nosuch -p x --$option
done
fails 2 'takes the name of a file, not the text' run -m nosuch -p x --grammar 'root ::= "a"'
fails 2 'takes the name of a file, not the text' run -m nosuch -p x --json-schema '{"type": "object"}'
fails 2 '\-\-grammar -: standard input is already the prompt' chat -m nosuch --grammar -
fails 2 '\-\-json-schema -: standard input is already the prompt' run -m nosuch - --json-schema -
fails 2 '\-\-grammar -: standard input is already the prompt' run -m nosuch -p x -f - --grammar -
printf 'root ::= "a"\n\nb ::= c\n' >"$work/wrong.gbnf"
fails 3 'wrong.gbnf: grammar, line 3: the rule c is not defined' run -m nosuch -p x --grammar "$work/wrong.gbnf"
printf '{"properties": {"a": {"not": {}}}}' >"$work/wrong.json"
fails 3 'wrong.json: schema' run -m nosuch -p x --json-schema "$work/wrong.json"
has 'properties/a' "$work/err"
printf '{"type": ' >"$work/wrong.json"
fails 3 'wrong.json: schema' chat -m nosuch --json-schema "$work/wrong.json"
finish
