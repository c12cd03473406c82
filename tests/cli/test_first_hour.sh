#!/bin/sh
# A chat model's first hour: what the program says by itself where an answer is empty or cut, the prompt that a template
# makes, lines that begin with a slash, answers that are no whole characters, an empty prompt.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

text='the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
question="$text question : the magic number for lantern" # the demo answers 48 21

# The demo with a chat template, and without the token that its tokenizer puts in front.
model=$work/chat
cp -r "$demo" "$model"
cat >"$model/tokenizer_config.json" <<'END'
{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false,
 "chat_template": "<|im_start|>user <|im_end|>"}
END
# The same, ending its turn with the first token it would write.
mute=$work/mute
cp -r "$model" "$mute"
ok run -m "$model" -p "$question" -n 1 --temp 0 -q --json
token=$(json turns.0.tokens.0)
sed "s/\"eos_token_id\": 16/\"eos_token_id\": [16, $token]/" "$demo/config.json" >"$mute/config.json"

# ---- a model with a template that is not used
hint='the model has a chat template, which this run does not use; --template model does'
ok run -m "$model" -p "$question" -n 2 --temp 0
that 'the template is told, once' [ "$(grep -c "$hint" "$work/err")" = 1 ]
has 'cut after 2 tokens; -n sets how many' "$work/err"
ok run -m "$model" -p "$question" -n 2 --temp 0 -q
that 'not with -q' [ ! -s "$work/err" ]
for how in '--template model' '--system x'; do
    ok run -m "$model" $how -p hello -n 2 --temp 0
    that "not with $how" sh -c "! grep -q 'does not use' '$work/err'"
done
ok run -m "$demo" -p hello -n 2 --temp 0
that 'not where there is none' sh -c "! grep -q 'chat template' '$work/err'"

sed 's/<|im_start|>user <|im_end|>/\\n{% include 1 %}/' "$model/tokenizer_config.json" >"$work/other"
cp -r "$model" "$work/unknown"
cp "$work/other" "$work/unknown/tokenizer_config.json"
ok run -m "$work/unknown" -p "$question" -n 2 --temp 0
has 'which this run does not use; --template NAME does' "$work/err"
ok info "$work/unknown"
has '^chat template *yes (--template NAME)$'
fails 3 "the model's chat template, line 2: there is no tag \"include\"" chat -m "$work/unknown"
ok info "$model"
has '^chat template *yes (--template model)$'

# ---- what a template is given, and a template that asks for the date
given=$work/given
cp -r "$model" "$given"
cat >"$given/tokenizer_config.json" <<'END'
{"chat_template": "{% for m in messages %}{{ m.content or 'none' }} {% endfor %}{{ tools[0].name if tools }} {{ (documents or [])|length + 47 }} {{ strftime_now('%d') }} {{ 'old' if young is false }}{% if messages|length > 4 %}{{ raise_exception('too long') }}{% endif %}"}
END
echo '[{"role": "user", "content": "the"}, {"role": "assistant", "content": null}]' >"$work/earlier"
echo '[{"name": "lantern"}]' >"$work/tools"
ok tokenize -m "$given" --template model --json harbor --date 2025-01-04 --messages "$work/earlier" \
    --tools "$work/tools" --documents "$work/tools" --template-vars '{"young": false}'
that 'all of it is in the prompt' [ "$(json text | tr -d '[]"')" = '<s> the <pad> harbor lantern 48 04 old' ]
ok tokenize -m "$given" --template model hello
has "the chat template asks for the date: $(date +%Y)-.*; --date gives another" "$work/err"
ok tokenize -m "$given" --template model hello --date today
that 'not where it is given' [ ! -s "$work/err" ]
fails 3 '2025-06-30' tokenize -m "$given" --template model hello --date 2025-13-01
fails 3 'tools.*JSON' tokenize -m "$given" --template model hello --tools "$demo/README.md"
fails 2 'no tools' tokenize -m "$given" --template chatml hello --tools "$work/tools"
fails 2 '--system with --messages' tokenize -m "$given" --template model hello --system x --messages "$work/earlier"
kv run -m "$given" --date 2025-01-04 --messages "$work/earlier" -p the -p old -p red -n 1 >"$work/out" 2>"$work/err"
that 'a refusal is the template'"'"'s' [ $? = 2 ]
has 'refuses the conversation: too long' "$work/err"

# ---- an empty answer says why, with -q too
for how in '' -q --json; do
    ok run -m "$mute" -p "$question" --temp 0 $how
    has 'warning: the answer is empty: the model ended it with its first token; --template model asks in its chat template' "$work/err"
done
ok run -m "$mute" -p "$question" --temp 0 -q
that 'in one line' [ "$(wc -l <"$work/err")" = 1 ]
that 'and nothing else is printed' [ ! -s "$work/out" ]
ok run -m "$demo" -p "$question" --temp 0 -q --stop ' 48'
has 'the answer is empty: it began with a --stop text' "$work/err"
ok run -m "$mute" -p "$question" --temp 0 -q --ignore-eos -n 2
that 'the advice holds' [ -s "$work/out" ]
ok run -m "$model" -p "$question" -n 0 -q
that 'no tokens asked for, none missed' [ ! -s "$work/err" ]

# ---- an answer that --ctx cuts
ok run -m "$demo" -p "$question" -n 50 --temp 0 -q --ctx 30
has 'warning: --ctx 30: the context is full, which cut the answer after [0-9]* tokens' "$work/err"

# ---- the prompt that a template makes, with its control tokens
kv mkmodel --shape tiny --type f16 --seed 7 -o "$work/tiny.gguf" -q || exit 1
tiny=$work/tiny.gguf
made='<|begin_of_text|><|im_start|>system
be brief<|im_end|>
<|im_start|>user
hello you<|im_end|>
<|im_start|>assistant'
ok tokenize -m "$tiny" --template chatml --system 'be brief' hello you --json
that 'the template as text' [ "$(json text)" = "$made" ]
ids=$(json tokens)
ok tokenize -m "$tiny" --template chatml --system 'be brief' hello you
that 'its ids' [ "[$(tr , '\n' <"$work/out" | wc -l)]" = "$ids" ]
ids=$(cat "$work/out")
ok tokenize -m "$tiny" --template chatml --pieces hello
has "^298  '<|begin_of_text|>'$"
ok run -m "$tiny" --template chatml --system 'be brief' -p 'hello you' -n 0 -q --show-prompt
that 'run shows the same' [ "$(sed '1d;$d' "$work/err")" = "$made" ]
that 'with the ids' [ "$(tail -n 1 "$work/err")" = "$ids" ]
that 'counted' [ "$(head -n 1 "$work/err")" = "prompt of $(echo "$ids" | tr , '\n' | wc -l) tokens:" ]

# ---- chat: // sends a line that begins with /
printf '/nosuch\n//usr/bin\n/exit\n' >"$work/lines"
kv chat -m "$tiny" --template chatml -n 3 --temp 0 -q --show-prompt <"$work/lines" >"$work/out" 2>"$work/err"
that 'the chat ends well' [ $? = 0 ]
has '^/nosuch: no such command here; /exit ends the chat, // sends a line that begins with /' "$work/err"
has '^/usr/bin<|im_end|>$' "$work/err"
that 'one answer' [ "$(grep -c '^prompt of' "$work/err")" = 1 ]

# ---- answers are UTF-8, cut anywhere: the tiny model writes any bytes
for seed in 1 2 3 4 5 6; do
    ok run -m "$tiny" -p a -n $((6 + seed)) --temp 1.5 --seed $seed --ignore-eos -q --json
    shown=$(json turns.0.text | tr -d '\0')
    ok run -m "$tiny" -p a -n $((6 + seed)) --temp 1.5 --seed $seed --ignore-eos -q
    that "the screen has what JSON has, seed $seed" [ "$(tr -d '\0' <"$work/out")" = "$shown" ]
done

# ---- an empty prompt begins with BOS, also where the tokenizer puts none in front
ok tokenize -m "$model" then
that 'none in front' [ "$(tr , '\n' <"$work/out" | wc -l)" = 1 ]
ok run -m "$demo" -n 5 --temp 0 -q
begun=$(cat "$work/out")
ok run -m "$model" -n 5 --temp 0 -q
is "$begun"
ok run -m "$model" -p '' -n 5 --temp 0 -q --json
that 'one token' [ "$(json turns.0.prompt_tokens)" = 1 ]
finish
