#!/bin/sh
# Commands on a pipeline: prompts of several passes, steps of several groups, their messages, and a value in the middle
# of a prompt that is not finite.
. "${top_srcdir:-.}/tests/ranks/lib.sh"

# on RANKS ARGUMENTS...: a command that hangs ends after five minutes
on() {
    count=$1
    shift
    timeout 300 $start -n "$count" "$each" "$@" --ranks pipeline >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

# ---- the flow: prompts of several passes with policies that do not observe the whole prompt, next to policies that do;
# steps of several groups (two from 12 sessions on with 4 ranks); sends that wait for their receivers
flows() { # RANKS
    on "$1" verify --kv full --kv quest:budget=32 --kv topk:budget=24 --kv h2o:budget=40 --backend cpu --threads 1 \
        --only methods --prompt 90 --chunk 16 --gen 4 --json -q
    that "$1 ranks, six passes: exit $status" [ $status = 0 ]
    that "$1 ranks, six passes: equal" [ "$(json equal)" = true ]
}
flows 2
flows 3
flows 4
# shellcheck disable=SC2046
set -- eval needle_demo -m "$demo" --raw --length 120 --chunk 16 --samples 1 --question seen --threads 1 -q \
    $(for budget in 16 20 24 28 32 36 40 44 48 52 56 60; do printf ' --kv quest:budget=%s' $budget; done) --kv full
# Without times, and without peaks: ranks reach theirs at different times, so that their sum may be above the peak of one
# process.
answers() { sed 's/,"peak_bytes":[0-9]*//; s/,"prompt_us.*//' "$1"; }
ok "$@" --out "$work/answers"
that 'a batch of 13' [ "$(answers "$work/answers" | wc -l)" -ge 13 ]
grouped() { # RANKS
    count=$1
    shift
    on "$count" "$@" --out "$work/answers$count"
    that "$count ranks, groups: exit $status" [ $status = 0 ]
    answers "$work/answers" >"$work/one"
    answers "$work/answers$count" >"$work/two"
    that "$count ranks, groups: the same answers" cmp -s "$work/one" "$work/two"
    rm -f "$work/answers$count"
}
grouped 4 "$@"
KVCULL_RANKS=synchronous
export KVCULL_RANKS
grouped 4 "$@"
flows 3
unset KVCULL_RANKS
# the number of messages of bench shows the number of groups
on 4 bench -m "$demo" --threads 1 --prompt 90 --chunk 16 --gen 1 --batch 10,12 --repeat 1 --json -q
sent=$(sed -n 's/.*"sent_messages_per_token": //p' "$work/out" | tr '\n' ' ')
# 6 messages for a call, 12 for its end, 3 for logits; 9 for a group or a pass, and 6 for each pass's progress
that "six passes, one group, two groups: $sent" [ "$(echo "$sent" | awk '{
    printf "%.0f %.0f %.0f", $1 * 90, $2 * 10, $3 * 12 }')" = '108 30 39' ]

# ---- a NaN in a middle pass: the embedding of a word that occurs only there
cp -r "$demo" "$work/nanword"
chmod -R u+w "$work/nanword"
weights=$work/nanword/model.safetensors
ok tokenize -m "$demo" kettle
token=$(sed 's/.*,//' "$work/out")
# shellcheck disable=SC2046
set -- $(LC_ALL=C awk 'NR == 1 {
    match($0, "\"model.embed_tokens.weight\": *[{][^}]*data_offsets\": *\\[[0-9]+")
    at = substr($0, RSTART, RLENGTH)
    sub(/.*\[/, "", at)
    print at
}' "$weights") $(od -An -tu8 -N8 "$weights")
printf '\377\377\377\377' | dd of="$weights" bs=1 seek=$(($1 + $2 + 8 + token * 512)) conv=notrunc 2>/dev/null
{
    for i in 1 2 3 4; do printf 'the magic number for lantern 48 21 . then the old sailor '; done
    printf 'kettle '
    for i in 1 2 3 4; do printf 'the magic number for lantern 48 21 . then the old sailor '; done
} >"$work/words"
"$program" run -m "$work/nanword" -f "$work/words" --chunk 16 -n 1 -q >"$work/out" 2>"$work/err"
that 'a NaN in a pass' [ $? = 3 ]
grep '^kvcull' "$work/err" >"$work/alone"
for ranks in 2 3 4; do
    on $ranks run -m "$work/nanword" -f "$work/words" --chunk 16 -n 1 -q
    that "exit $status of a NaN in a pass, $ranks ranks" [ $status = 3 ]
    said
    that "$ranks ranks: the error of one process" cmp -s "$work/said" "$work/alone"
done
finish
