#!/bin/sh
# run and chat as a user types them: turns, stop texts, sampling, summaries, JSON.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

kv mkmodel --shape tiny --type f16 --seed 7 -o "$work/tiny.gguf" -q || exit 1
text='the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
question='question : the magic number for lantern'

# ---- the answer is printed, the prompt is not; the summary goes to standard error
ok run -m "$demo" -p "$text $question" -n 3 --temp 0
has '48 21'
that 'the prompt is not printed' sh -c "! grep -q sailor '$work/out'"
has '^prompt  [0-9]* tokens in .*first token after' "$work/err"
has '^answer  3 tokens in .*tokens/s' "$work/err"
has '^cache   .* now, .* at peak (full); full would hold' "$work/err"
answer=$(cat "$work/out")
ok run -m "$demo" -p "$text $question" -n 3 --temp 0 -q
is "$answer"
that 'nothing on stderr with -q' [ ! -s "$work/err" ]
printf '%s' "$text $question" >"$work/prompt"
ok run -m "$demo" -f "$work/prompt" -n 3 --temp 0 -q
is "$answer"
kv run -m "$demo" - -n 3 --temp 0 -q <"$work/prompt" >"$work/out" 2>"$work/err"
is "$answer"
ok run -m "$demo" -n 5 --temp 0 -q
that 'an empty prompt begins a text' [ -s "$work/out" ]

# ---- the text is the same whatever computes it
for how in '--backend ref' '--threads 1' '--chunk 1' '--chunk 7' '--kv window:budget=500'; do
    ok run -m "$demo" -p "$text $question" -n 3 --temp 0 -q $how
    is "$answer"
done

# ---- several turns
ok run -m "$demo" -p "$text" -p "$question" -n 3 --temp 0 -q
that 'two turns, two answers' [ "$(wc -l <"$work/out")" = 2 ]
ok run -m "$demo" -p "$text" -p "$question" -n 3 --temp 0 --json
that 'two turns in JSON' [ "$(json turns)" = '[2]' ]
that 'tokens out' [ "$(json turns.0.tokens)" = '[3]' ]
that 'why it stopped' [ "$(json turns.1.stopped)" = length ]
that 'counted' [ "$(json summary.answer_tokens)" = 6 ]
# 21 words and several numbers, with <s> first; the last token of the last answer is not in the cache yet
seen=$(($(json summary.prompt_tokens) + 5))
that 'the session saw all but the last token' [ "$(json summary.memory.tokens)" = $seen ]

# ---- ends
ok run -m "$demo" -p "$text $question" -n 20 --temp 0 --json --stop '21'
that 'a stop text ends the answer' [ "$(json turns.0.stopped)" = 'stop text' ]
that 'the stop text is left out' sh -c "! '$build/tests/cli/json_value' turns.0.text <'$work/out' | grep -q 21"
ok run -m "$demo" -p "$text $question" -n 20 --temp 0 --json --stop '8 2'
that 'a stop text across tokens' [ "$(json turns.0.stopped)" = 'stop text' ]
that 'it ends inside a token' [ "$(json turns.0.text | tr -d ' ')" = 4 ]
ok run -m "$demo" -p "$text $question" -n 20 --temp 0 --stop '8 2' -q
that 'the same on the screen' [ "$(tr -d ' ' <"$work/out")" = 4 ]
ok run -m "$demo" -p "$text" -n 500 --ctx 30 --temp 0 --json
that 'the context ends it' [ "$(json turns.0.stopped)" = context ]
that 'at that many tokens' [ "$(json summary.memory.tokens)" = 30 ]
ok run -m "$work/tiny.gguf" -n 0 --json --ignore-eos -p 'a'
that 'no tokens asked for' [ "$(json turns.0.tokens)" = '[0]' ]

# ---- random numbers
ok run -m "$demo" -n 30 --temp 1.5 --seed 1 -q --ignore-eos
one=$(cat "$work/out")
ok run -m "$demo" -n 30 --temp 1.5 --seed 1 -q --ignore-eos --threads 1
is "$one"
ok run -m "$demo" -n 30 --temp 1.5 --seed 2 -q --ignore-eos
that 'another seed, another text' [ "$(cat "$work/out")" != "$one" ]
# ---- penalties for tokens that the answer already contains
for penalty in frequency presence; do
    ok run -m "$demo" -p 'the red kettle' -n 30 --temp 0 --ignore-eos -q
    cp "$work/out" "$work/plain"
    ok run -m "$demo" -p 'the red kettle' -n 30 --temp 0 --ignore-eos -q --$penalty-penalty 2
    that "--$penalty-penalty changes the answer" test "$(cat "$work/out")" != "$(cat "$work/plain")"
    ok run -m "$demo" -p 'the red kettle' -n 30 --temp 0 --ignore-eos -q --$penalty-penalty 0
    that 'and 0 does not' cmp -s "$work/out" "$work/plain"
    fails 2 "$penalty-penalty 2.5: takes a number from -2 to 2" run -m "$demo" -p a --$penalty-penalty 2.5
done
ok run -m "$demo" -p 'the red kettle' -n 3 --ignore-eos --save "$work/saved" -q
fails 2 'does not contain the tokens of its answer' run -m "$demo" --load "$work/saved" -n 3 --presence-penalty 1

ok run -m "$demo" -n 10 --temp 1.5 --top-k 1 --seed 3 -q
one=$(cat "$work/out")
ok run -m "$demo" -n 10 --temp 0 -q
is "$one"

# ---- a bounded cache
ok run -m "$demo" -p "$text" -n 200 --temp 0 --ignore-eos --kv 'morphkv:budget=40,window=8' --json
that 'the budget holds' [ "$(json summary.memory.entries_most)" = 40 ]
ok run -m "$demo" -n 2100 --temp 0 --ignore-eos --kv 'streaming:budget=16' -q
that 'the trained length is passed with one warning' [ "$(grep -c 'warning: .*2048 tokens' "$work/err")" = 1 ]

# ---- chat
cat >"$work/lines" <<'END'
the magic number for lantern 48 21 .
where is it ?

/exit
never read
END
kv chat -m "$demo" --template chatml -n 6 --temp 0 -q <"$work/lines" >"$work/out" 2>"$work/err"
that 'a chat ends well' [ $? = 0 ]
that 'an answer a line' [ "$(wc -l <"$work/out")" = 2 ]
kv chat -m "$demo" --template chatml --system 'the sailor' -n 6 --temp 0 <"$work/lines" >"$work/out" 2>"$work/err"
has '^cache   ' "$work/err"
kv chat -m "$demo" --template chatml -n 6 </dev/null >"$work/out" 2>"$work/err"
that 'no input ends the chat' [ $? = 0 ]
fails 2 'nosuch' chat -m "$demo" --template nosuch
ok run -m "$demo" --template chatml -p 'the magic number' -p 'the old sailor' -n 4 --temp 0 --json
that 'turns through a template' [ "$(json turns)" = '[2]' ]
finish
