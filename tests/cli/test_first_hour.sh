#!/bin/sh
# A chat model's first hour: hints for an empty or cut answer, the prompt that a template makes, lines that begin with a
# slash, answers that are not whole characters, an empty prompt.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

text='the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
question="$text question : the magic number for lantern" # the demo answers 48 21

# The demo with a chat template, without the token that its tokenizer puts first.
model=$work/chat
cp -r "$demo" "$model"
cat >"$model/tokenizer_config.json" <<'END'
{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false,
 "chat_template": "<|im_start|>user <|im_end|>"}
END
# The same, but its turn ends with the first token that it would write.
mute=$work/mute
cp -r "$model" "$mute"
ok run -m "$model" --raw -p "$question" -n 1 --temp 0 -q --json
token=$(json turns.0.tokens.0)
sed "s/\"eos_token_id\": 16/\"eos_token_id\": [16, $token]/" "$demo/config.json" >"$mute/config.json"

# ---- a prompt is a message if the model has a template
shown() { ok run -m "$model" -n 2 --temp 0 -q --show-prompt "$@"; }
shown --template model -p "$question"
made=$(cat "$work/err")
shown -p "$question"
that 'the template is used' [ "$(cat "$work/err")" = "$made" ]
echo "$question" >"$work/question"
shown -f "$work/question"
that 'of a file too' [ "$(cat "$work/err")" = "$made" ]
shown --raw -p "$question"
raw=$(cat "$work/err")
that '--raw continues the text' [ "$raw" != "$made" ]
ok run -m "$demo" -n 2 --temp 0 -q --show-prompt -p "$question"
that 'as without a template' [ "$(tail -n 1 "$work/err" | tr , '\n' | wc -l)" = \
    "$(($(echo "$raw" | tail -n 1 | tr , '\n' | wc -l) + 1))" ]
fails 2 'cannot be combined with options of a chat' run -m "$model" --raw --system x -p hello
# <pad> is a control token of this model: a caller who writes one has applied a template
ok run -m "$model" -p "$question <pad>" -n 2 --temp 0 --show-prompt
has 'contains control tokens and is continued unchanged; --template model makes it a message' "$work/err"
that 'nothing is put around it' [ "$(grep -c 'old sailor' "$work/err")" = 1 ]
ok run -m "$model" -p "$question <pad>" -n 2 --temp 0 -q
that 'not said with -q' [ ! -s "$work/err" ]

sed 's/<|im_start|>user <|im_end|>/\\n{% include 1 %}/' "$model/tokenizer_config.json" >"$work/other"
cp -r "$model" "$work/unknown"
cp "$work/other" "$work/unknown/tokenizer_config.json"
fails 3 'there is no tag "include".*; --raw continues the prompt without the template' \
    run -m "$work/unknown" -p "$question" -n 2 --temp 0
ok run -m "$work/unknown" --raw -p "$question" -n 2 --temp 0
ok info "$work/unknown"
has '^chat template *yes (--template NAME)$'
fails 3 "the model's chat template, line 2: there is no tag \"include\"" chat -m "$work/unknown"
ok info "$model"
has '^chat template *yes (--template model)$'

# ---- the variables that a template gets, and a template that asks for the date
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
has "the chat template needs a date and gets $(date +%Y)-.*; --date sets another" "$work/err"
ok tokenize -m "$given" --template model hello --date today
that 'not where it is given' [ ! -s "$work/err" ]
fails 3 '2025-06-30' tokenize -m "$given" --template model hello --date 2025-13-01
fails 3 'tools.*JSON' tokenize -m "$given" --template model hello --tools "$demo/README.md"
fails 2 'does not support tools' tokenize -m "$given" --template chatml hello --tools "$work/tools"
fails 2 '--system with --messages' tokenize -m "$given" --template model hello --system x --messages "$work/earlier"
kv run -m "$given" --date 2025-01-04 --messages "$work/earlier" -p the -p old -p red -n 1 >"$work/out" 2>"$work/err"
that 'a refusal is the template'"'"'s' [ $? = 2 ]
has 'refuses the conversation: too long' "$work/err"

# ---- a template from a file, anywhere
printf 'the {{ messages[0].content }} .' >"$work/own.jinja"
for command in 'run -n 0 -q --show-prompt -p' 'tokenize --json'; do
    # shellcheck disable=SC2086
    ok $command harbor -m "$demo" --chat-template-file "$work/own.jinja"
    cat "$work/out" "$work/err" >"$work/both"
    has 'the harbor \.' "$work/both"
    # shellcheck disable=SC2086
    fails 2 'one of the two' $command harbor -m "$demo" --chat-template-file "$work/own.jinja" --template chatml
    # shellcheck disable=SC2086
    fails 3 'none.jinja: No such file' $command harbor -m "$demo" --chat-template-file "$work/none.jinja"
done
echo harbor | kv chat "$demo" --chat-template-file "$work/own.jinja" -n 1 -q --show-prompt >"$work/out" 2>"$work/err"
has 'the harbor \.' "$work/err"
echo '{% nonsense %}' >"$work/own.jinja"
fails 3 'the given chat template, line 1' run "$demo" --chat-template-file "$work/own.jinja" -p x

# ---- other programs' names for these options, and the intended option for a misspelled name
ok run "$demo" -p "$question" -n 3 --temp 0 -q -t 1 -c 64 --cache-type-k q8_0 --cache-type-v Q8_0 --json
that 'a type by two names' [ "$(json turns.0.tokens)" = '[3]' ]
ok run "$demo" -p "$question" --predict 3 --temperature 0 --ctx-size 64 -q --json
that 'aliases' [ "$(json turns.0.tokens)" = '[3]' ]
for types in '--cache-type-k q8_0' '--cache-type-v=q8_0' '--cache-type-k f16 --cache-type-v q8_0'; do
    # shellcheck disable=SC2086
    fails 2 'keys and values have one type' run -m "$demo" -p x $types
done
ok run -m "$demo" -p "$question" -n -1 --ctx 60 --temp 0 -q --ignore-eos
has '--ctx 60: the context is full' "$work/err"
ok run -m "$demo" -p "$question" -n 9 --temp 2 --seed -1 --ignore-eos --json
drawn=$(sed -n 's/^(drew --seed \([0-9]*\))$/\1/p' "$work/err") text=$(json turns.0.text)
that 'JSON says which seed was drawn' [ "$(json summary.seed)" = "$drawn" ]
ok run -m "$demo" -p "$question" -n 9 --temp 2 --seed "$drawn" --ignore-eos --json
that 'and it draws the same again' [ "$(json turns.0.text)" = "$text" ]
ok run -m "$demo" -p "$question" -n 9 --temp 2 --seed -1 --ignore-eos --json
that 'another one each time' [ "$(json summary.seed)" != "$drawn" ]
fails 2 'did you mean snapkv?' run -m "$demo" --kv snapvk:budget=3 -p x
fails 2 'did you mean budget?' run -m "$demo" --kv snapkv:bugdet=3 -p x
fails 2 'did you mean max?' run -m "$demo" --kv morphkv:budget=32,fusion=mx -p x
fails 2 'did you mean q8_0?' run -m "$demo" --kv-type q80 -p x
fails 2 'did you mean int8?' run -m "$demo" --math int -p x
fails 2 'did you mean chatml?' run -m "$demo" --template chatlm -p x
fails 2 'did you mean avx2?' run -m "$demo" --backend avx -p x
fails 2 'did you mean tiny?' mkmodel --shape tinny -o "$work/none.gguf"
fails 2 'did you mean mxfp4?' convert "$demo" -o "$work/none.gguf" --type mxpf4
fails 2 'give a prompt with -p' run "$demo" nonsense
fails 2 'the model is' chat "$demo" "$demo"

# ---- templates of several names, and tools that a template does not use
cat >"$given/tokenizer_config.json" <<'END'
{"chat_template": [{"name": "default", "template": "the {{ messages[0].content }}"},
                   {"name": "tool_use", "template": "lantern {{ (tools or [])|length + 47 }}"}]}
END
ok tokenize -m "$given" --template model --json harbor
that 'the default one' [ "$(json text | tr -d '[]"')" = '<s> the harbor' ]
ok tokenize -m "$given" --template model --json harbor --tools "$work/tools"
that 'the one for tools' [ "$(json text | tr -d '[]"')" = '<s> lantern 48' ]
that 'which reads them' [ ! -s "$work/err" ]
ok tokenize -m "$given" --template tool_use --json harbor
that 'one by its name' [ "$(json text | tr -d '[]"')" = '<s> lantern 47' ]
unread='the chat template reads no tools, so the model does not receive those of --tools'
ok tokenize -m "$given" --template default harbor --tools "$work/tools"
has "$unread" "$work/err"
kv run -m "$given" --template default --tools "$work/tools" --documents "$work/tools" -p the -p old -n 1 >"$work/out" 2>"$work/err"
that 'one warning' [ "$(grep -c "$unread" "$work/err")" = 1 ]
has 'reads no documents' "$work/err"

# ---- an empty answer gives its reason, also with -q
for how in '' -q --json; do
    ok run -m "$mute" --raw -p "$question" --temp 0 $how
    has 'warning: the answer is empty: the model ended it with its first token; --template model applies its chat template' "$work/err"
done
ok run -m "$mute" --raw -p "$question" --temp 0 -q
that 'in one line' [ "$(wc -l <"$work/err")" = 1 ]
that 'and nothing else is printed' [ ! -s "$work/out" ]
ok run -m "$demo" -p "$question" --temp 0 -q --stop ' 48'
has 'the answer is empty: it began with a --stop text' "$work/err"
ok run -m "$mute" --raw -p "$question" --temp 0 -q --ignore-eos -n 2
that 'the advice holds' [ -s "$work/out" ]
ok run -m "$model" -p "$question" -n 0 -q
that 'no tokens asked for, none missed' [ ! -s "$work/err" ]

# ---- an answer that --ctx cuts
ok run -m "$demo" -p "$question" -n 50 --temp 0 -q --ctx 30
has 'warning: --ctx 30: the context is full, so the answer was cut after [0-9]* tokens' "$work/err"

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
has '^/nosuch: no such command; /help lists them, // sends a line that begins with /' "$work/err"
has '^/usr/bin<|im_end|>$' "$work/err"
that 'one answer' [ "$(grep -c '^prompt of' "$work/err")" = 1 ]

# ---- answers are UTF-8 wherever they are cut: the tiny model writes arbitrary bytes
for seed in 1 2 3 4 5 6; do
    ok run -m "$tiny" -p a -n $((6 + seed)) --temp 1.5 --seed $seed --ignore-eos -q --json
    shown=$(json turns.0.text | tr -d '\0')
    ok run -m "$tiny" -p a -n $((6 + seed)) --temp 1.5 --seed $seed --ignore-eos -q
    that "the screen has what JSON has, seed $seed" [ "$(tr -d '\0' <"$work/out")" = "$shown" ]
done

# ---- an empty prompt begins with BOS, also if the tokenizer puts none first
ok tokenize -m "$model" then
that 'none in front' [ "$(tr , '\n' <"$work/out" | wc -l)" = 1 ]
ok run -m "$demo" -n 5 --temp 0 -q
begun=$(cat "$work/out")
ok run -m "$model" -n 5 --temp 0 -q
is "$begun"
ok run -m "$model" --raw -p '' -n 5 --temp 0 -q --json
that 'one token' [ "$(json turns.0.prompt_tokens)" = 1 ]
finish
