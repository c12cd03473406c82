#!/bin/sh
# A longrope model beyond the length of its short factors: the prompt is computed again if the cache is whole, otherwise
# there is a warning.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

mkdir "$work/model" || exit 1
cp "$demo"/* "$work/model/"
ones=1.0 twos=2.0
for i in 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do ones="$ones, 1.0$i" twos="$twos, 2.$i"; done
sed "s/\"rope_theta\"/\"original_max_position_embeddings\": 32, \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [$ones], \"long_factor\": [$twos]}, \"rope_theta\"/" \
    "$demo/config.json" >"$work/model/config.json"
model=$work/model
text='the magic number for lantern 48 21 . then the old sailor found the red kettle'
ask() { ok run -m "$model" -p "$text" -p "$text" -n 12 --temp 0 --ignore-eos "$@"; }

ok info "$model"
has 'short factors up to 32 tokens'
ask --kv full -q
that 'a whole cache needs no warning' [ ! -s "$work/err" ]
cp "$work/out" "$work/anew"
ask --kv streaming:budget=500 -q
has 'short factors' "$work/err"
has '--ctx 33' "$work/err"
that 'once' [ "$(wc -l <"$work/err")" = 1 ]
that 'and continues with the short ones' sh -c "! cmp -s '$work/out' '$work/anew'"
ask --kv streaming:budget=500 --ctx 400 -q
that 'with --ctx it does not' [ ! -s "$work/err" ]

# ---- in two parts, one with --ctx: a run with long factors continues; one that began with short factors starts again
# with the whole prompt
parts() {
    ok run -m "$model" --kv full -p "$text" -n "$1" --temp 0 --ignore-eos -q --save "$work/saved" $2
    cp "$work/out" "$work/parts"
    ok run -m "$model" --load "$work/saved" -p "$text" -n "$1" --temp 0 --ignore-eos -q $3
    cat "$work/out" >>"$work/parts"
}
ok run -m "$model" --kv full -p "$text" -p "$text" -n 24 --temp 0 --ignore-eos -q --ctx 400
mv "$work/out" "$work/whole"
parts 24 '--ctx 400' ''
that 'the long ones stay' cmp -s "$work/parts" "$work/whole"
parts 12 '' '--ctx 400'
that 'what began short begins anew' cmp -s "$work/parts" "$work/anew"

# ---- a method that evicts needs no tokens to begin again: a loaded session is saved without them, too
ok run -m "$model" --kv streaming:budget=20 -p "$text" -n 3 --temp 0 --ignore-eos -q --save "$work/saved"
ok run -m "$model" --load "$work/saved" -n 3 --temp 0 --ignore-eos -q --save "$work/again"
ok run -m "$model" --load "$work/again" -n 3 --temp 0 --ignore-eos -q

# ---- chat: long factors from the first token on if the context will need them
printf '%s\n%s\n' "$text" "$text" >"$work/lines"
for kv in full streaming:budget=500; do
    kv chat -m "$model" --template chatml --kv $kv -n 12 --temp 0 --ignore-eos -q <"$work/lines" >"$work/out" 2>"$work/err"
    that "chat with $kv" [ $? = 0 ]
    that "no warning with $kv" sh -c "! grep -q longrope '$work/err'"
done
finish
