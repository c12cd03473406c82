#!/bin/sh
# KVCULL_LOG: lines on standard error with a level and a subject; the answer stays the same; another value is an error.
. "${top_srcdir:-.}/tests/cli/lib.sh"
text='the magic number for lantern 48 21 . question : the magic number for lantern'
text="$text $text $text $text $text $text" # more than the budget
answer() { ok run -q -m "$demo" --temp 0 -n 2 --kv snapkv:budget=64 -p "$text"; }
lines() { grep -c "^kvcull: $1: " "$work/err"; }
only() { ! grep -v "^kvcull: $1: " "$work/err"; }

answer
cp "$work/out" "$work/plain"
that 'without KVCULL_LOG there are no lines' [ "$(lines '[a-z]*: [a-z]*')" = 0 ]

export KVCULL_LOG=info
answer
that 'the answer is the same' cmp "$work/out" "$work/plain"
that 'the device' grep -q '^kvcull: info: device: cpu (' "$work/err"
that 'the model' grep -q '^kvcull: info: model: .*demo: huggingface, ' "$work/err"
that 'the policy' grep -q '^kvcull: info: policy: .* snapkv holds the stage prompt$' "$work/err"
that 'the cache' grep -q '^kvcull: info: cache: session with snapkv:budget=64: f16 entries of ' "$work/err"
that 'nothing of a lower level' [ "$(lines 'debug: [a-z]*')" = 0 ]

export KVCULL_LOG=debug,cache
answer
that 'lines of a lower level' [ "$(lines 'debug: cache')" -gt 0 ]
that 'lines of that subject only' only '[a-z]*: cache'

for value in loud INFO '' info, info,devise; do
    export KVCULL_LOG="$value"
    fails 2 "KVCULL_LOG=$value: '.*' is not a \(level; the levels are error\|subject; the subjects are device\)" \
        run -m "$demo" -p lantern
done
unset KVCULL_LOG

finish
