#!/bin/sh
# Saved sessions of run and chat: a run continued from a file equals an uninterrupted one; a chat remembers; a file that
# cannot be continued is reported.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
run() { ok run -m "$demo" --backend ref --temp 0.9 --seed 5 -q "$@"; }
text='The archive has a number that was said in the'

# ---- an answer in parts equals the whole answer
for kv in full h2o:budget=16 snapkv:budget=12,window=4+quest:budget=8,page=4 streaming:budget=12,positions=cache; do
    run -p "$text" --kv $kv -n 24 --repeat-penalty 1.2 --ignore-eos
    mv "$work/out" "$work/whole"
    run -p "$text" --kv $kv -n 10 --repeat-penalty 1.2 --ignore-eos --save "$work/a"
    cp "$work/out" "$work/parts"
    run --load "$work/a" -n 6 --repeat-penalty 1.2 --ignore-eos --save "$work/b"
    cat "$work/out" >>"$work/parts"
    run --load "$work/b" -n 8 --repeat-penalty 1.2 --ignore-eos --kv $kv
    cat "$work/out" >>"$work/parts"
    tr -d '\n' <"$work/parts" >"$work/joined"
    tr -d '\n' <"$work/whole" >"$work/wanted"
    that "$kv: in three parts" cmp -s "$work/joined" "$work/wanted"
done

# ---- a prompt that is read once for several questions; they do not change its file
run -p "$text" -n 0 --kv snapkv:budget=12,window=4 --save "$work/prompt"
cp "$work/prompt" "$work/before"
run --load "$work/prompt" -p ' next' -n 5
mv "$work/out" "$work/one"
run --load "$work/prompt" -p ' next' -n 5
that 'twice the same' cmp -s "$work/out" "$work/one"
that 'the file is as it was' cmp -s "$work/prompt" "$work/before"
run -p "$text" -n 5 --kv snapkv:budget=12,window=4
mv "$work/out" "$work/one"
run --load "$work/prompt" -n 5
that 'the first token is drawn from the logits that were saved' cmp -s "$work/out" "$work/one"
ok run -m "$demo" --load "$work/prompt" -p ' next' -n 2 --json --temp 0
that 'JSON says whose policy it is' [ "$("$build/tests/cli/json_value" kv <"$work/out")" = snapkv:budget=12,window=4 ]

# ---- a chat in two parts
chat() {
    printf '%s\n' "$1" | kv chat -m "$demo" --template chatml --backend ref --temp 0 -n 12 -q $2 >"$work/out" 2>"$work/err" ||
        bad "chat: $1"
}
chat 'one
two' '--kv streaming:budget=40'
mv "$work/out" "$work/wanted"
chat one "--kv streaming:budget=40 --session $work/chat"
mv "$work/out" "$work/parts"
chat two "--session $work/chat"
cat "$work/out" >>"$work/parts"
that 'a chat in two sittings' cmp -s "$work/parts" "$work/wanted"

# ---- run continues a chat as a chat: with a message, or with an answer that was cut off
cp -r "$demo" "$work/chatty"
cat >"$work/chatty/tokenizer_config.json" <<'END'
{"bos_token": "<s>", "eos_token": "</s>",
 "chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"}
END
for model in "$demo" "$work/chatty"; do
    how=
    [ "$model" = "$demo" ] && how='--template chatml'
    # shellcheck disable=SC2086
    {
        ok run -m "$model" -q -p one -n 6 --temp 0 --ignore-eos --save "$work/cut" $how
        mv "$work/out" "$work/parts"
        ok run -m "$model" -q --load "$work/cut" -n 5 --temp 0 --ignore-eos --save "$work/cut" $how
        cat "$work/out" >>"$work/parts"
        ok run -m "$model" -q --load "$work/cut" -p two -n 4 --temp 0 --ignore-eos $how
        cat "$work/out" >>"$work/parts"
        ok run -m "$model" -q -p one -n 11 --temp 0 --ignore-eos --save "$work/in-one" $how
        mv "$work/out" "$work/wanted"
        ok run -m "$model" -q --load "$work/in-one" -p two -n 4 --temp 0 --ignore-eos $how
        cat "$work/out" >>"$work/wanted"
    }
    tr -d '\n' <"$work/parts" >"$work/joined"
    tr -d '\n' <"$work/wanted" >"$work/text"
    that "a chat goes on after a cut answer: $model" cmp -s "$work/joined" "$work/text"
done
ok run -m "$work/chatty" -q --load "$work/in-one" --raw -p then -n 4 --temp 0 --ignore-eos --show-prompt
that '--raw of a chat: no template' [ "$(sed -n 2p "$work/err")" = then ]

# ---- a new session file is private, but a file whose permissions the user changed keeps them
that 'a new file is private' [ "$(stat -c %a "$work/chat")" = 600 ]
chmod 644 "$work/prompt"
run -p "$text" -n 0 --save "$work/prompt"
that 'the mode of a file that was there stays' [ "$(stat -c %a "$work/prompt")" = 644 ]
run -p "$text" -n 0 --kv snapkv:budget=12,window=4 --save "$work/prompt"
(
    trap '' XFSZ
    ulimit -f 2
    kv run -m "$demo" -q -p "$text" -n 0 --save "$work/full" 2>"$work/err"
)
that 'a disk that is full: one line' [ "$(wc -l <"$work/err")" = 1 ]
that 'it names the file once' [ "$(grep -o "$work/full" "$work/err" | wc -l)" = 1 ]

# ---- refusals
ok run -q -m "$demo" -p "$text" -n 12 --regex ' [a-z]+' --save "$work/ended"
fails 2 'ended: its answer has ended; give -p TEXT or -f FILE' run -q -m "$demo" --load "$work/ended"
fails 3 'policy: it was saved with snapkv' run -q -m "$demo" --load "$work/prompt" --kv snapkv:budget=13,window=4 -p x
fails 3 'kv-type: it was saved with f16, but q8_0 is in use' run -q -m "$demo" --load "$work/prompt" --kv-type q8_0 -p x
fails 3 'not a saved session' run -q -m "$demo" --load "$demo/config.json" -p x
fails 3 'No such file' run -q -m "$demo" --load "$work/none" -p x
fails 3 'holds no conversation' run -q -m "$demo" --load "$work/prompt" --template chatml -p x
fails 2 'the model has no chat template; name one' run -q -m "$demo" --load "$work/chat" -p x
fails 2 'cannot be added to the conversation' run -q -m "$demo" --load "$work/chat" --template chatml --system x -p x
fails 2 'standard output' run -q -m "$demo" -p x -n 1 --save -
"$build/examples/questions" "$demo" "$work/library" full "$text" >"$work/out" # saves a session without a note
cp "$work/library" "$work/before"
another='library: was saved by another program and has no note of run or chat'
fails 3 "$another" run -q -m "$demo" --load "$work/library" -p x
fails 3 "$another" chat -q -m "$demo" --template chatml --session "$work/library"
that 'it stays' cmp -s "$work/library" "$work/before"
ok mkmodel --shape tiny --type f16 --seed 3 -o "$work/other.gguf" -q
fails 3 'model: it was saved with ' run -q -m "$work/other.gguf" --load "$work/prompt" -p x

# ---- a session that cannot be saved is reported before the model is read, and a file that is not a session is not
# replaced
printf 'a text' >"$work/text"
mkdir "$work/folder"
for command in 'run -p x --save' 'chat --session'; do
    fails 4 'none/file: cannot be written' $command "$work/none/file" -m "$work/nothing"
    fails 4 'folder: is not a regular file' $command "$work/folder" -m "$work/nothing"
    fails 3 'text: is not a saved session and is not replaced' $command "$work/text" -m "$work/nothing"
    fails 3 'other.gguf: is not a saved session and is not replaced' $command "$work/other.gguf" -m "$work/other.gguf"
done
that 'the text stays' [ "$(cat "$work/text")" = 'a text' ]
ok run -m "$work/other.gguf" -p x -n 1 -q
: >"$work/empty"
run -p x -n 1 --save "$work/empty"
that 'an empty file is replaced' [ -s "$work/empty" ]

# ---- one process at a time writes to a session: a second one is refused, which does not affect the first
mkfifo "$work/input"
ln -s chat "$work/link"
"$program" chat -m "$demo" --template chatml --temp 0 -n 3 -q --session "$work/chat" <"$work/input" >"$work/first" \
    2>"$work/first.err" &
first=$!
exec 8>"$work/input"
echo three >&8
for _ in $(seq 600); do
    [ -s "$work/first" ] && break
    kill -0 $first || break
    sleep 0.05
done
that 'the first chat answers' [ -s "$work/first" ]
fails 4 'chat: another process is writing it' chat -m "$demo" --template chatml -q --session "$work/chat"
fails 4 'link: another process is writing it' chat -m "$demo" --template chatml -q --session "$work/link"
fails 4 'chat: another process is writing it' run -m "$demo" -q -p x -n 1 --save "$work/chat"
ok run -m "$demo" -q -p x -n 1 --template chatml --load "$work/chat" # it only reads the session
exec 8>&-
wait $first
that 'the first one ends well' [ $? = 0 ]
that 'no lock stays' [ -z "$(ls -A "$work" | grep kvcull-lock)" ]
chat four "--session $work/link"
that 'both were asked' [ "$(grep -ao 'three\|four' "$work/chat" | sort -u | wc -l)" = 2 ]
that 'the link stays' [ -h "$work/link" ]
finish
