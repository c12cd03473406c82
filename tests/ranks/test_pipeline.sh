#!/bin/sh
# --ranks pipeline: ranks with a run of layers each have the results of one process; and what is refused.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
sanitized && { echo 'MPI and sanitizers: the processes of one engine are tested without'; exit 77; }
command -v mpirun >/dev/null || { echo 'there is no mpirun'; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe TMPDIR=/tmp

# on RANKS ARGUMENTS...: what hangs ends after two minutes
on() {
    count=$1
    shift
    timeout 120 mpirun -n "$count" "$program" "$@" --ranks pipeline >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
on 2 --help
[ $status = 0 ] || { echo 'this build has no MPI, or mpirun starts nothing here'; exit 77; }
said() { grep '^kvcull' "$work/err" >"$work/said"; }

# ---- every method, the first way that is stored; cake and take, whose layers go by each other, among them
stored=$(sed -n 's/^method \(.*\) [0-9a-f]* [0-9a-f]* [0-9a-f]*$/\1/p' "$KVCULL_DATA/hashes.txt" | grep -v '[+" ]\|^int8:')
every=$(echo "$stored" | awk -F: '!seen[$1]++')
that 'there are methods' [ "$(echo "$every" | wc -l)" -ge 35 ]
equal() {
    count=$1
    shift
    # shellcheck disable=SC2046
    on "$count" verify $(for spec; do printf ' --kv %s' "$spec"; done) --backend cpu --threads 1 --only methods \
        --against stored --json -q
    that "$count ranks: exit $status" [ $status = 0 ]
    that "$count ranks: equal" [ "$(json equal)" = true ]
    that "$count ranks: by stored hashes" [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
}
# shellcheck disable=SC2086
equal 2 $every
# 3: of 4 layers one rank has two; 4: rows that are left out and added pass each of them
few=$(echo "$stored" | grep '^\(full\|cake:.*\|take:.*\|fastkv:.*\|dapq:.*\|h2o:.*per=head\|random:.*\|sparq:[^,]*\)$' | awk -F: 'n[$1]++ < 2')
# shellcheck disable=SC2086
{
    equal 3 $few
    KVCULL_RANKS=synchronous
    export KVCULL_RANKS
    equal 4 $few
    unset KVCULL_RANKS
}

# ---- the flow: prompts of several passes, where a policy does not look at the whole prompt, beside those that do; steps
# of several groups, two from 12 sessions on with 4 ranks; sends that wait for their receivers
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
answers() { sed 's/,"prompt_us.*//' "$1"; }
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
# what bench sends says how many groups there are
on 4 bench -m "$demo" --threads 1 --prompt 90 --chunk 16 --gen 1 --batch 10,12 --repeat 1 --json -q
sent=$(sed -n 's/.*"sent_messages_per_token": //p' "$work/out" | tr '\n' ' ')
# 6 messages of a call, 12 of its end, 3 of logits; 9 of a group or a pass, and 6 of each pass's progress
that "six passes, one group, two groups: $sent" [ "$(echo "$sent" | awk '{
    printf "%.0f %.0f %.0f", $1 * 90, $2 * 10, $3 * 12 }')" = '108 30 39' ]

# ---- what is told of the layers of all ranks
perplexity="perplexity -m $demo -f $work/text --ctx 24 --kv full --kv snapkv:budget=12,window=4 --threads 1 --json"
for i in 1 2 3 4; do echo 'the magic number for lantern 48 21 . then the old sailor found the red kettle .'; done >"$work/text"
# shellcheck disable=SC2086
ok $perplexity
timeless() { sed -E 's/"[a-z_]*(seconds|_us)": *[-0-9.e]+//g; s/"[a-z_]*peak[a-z_]*": *[0-9]+//g' "$@"; }
timeless "$work/out" >"$work/one"
# shellcheck disable=SC2086
on 2 $perplexity
that 'perplexity' [ $status = 0 ]
timeless "$work/out" >"$work/two"
that 'perplexity: the same' cmp -s "$work/one" "$work/two"

# ---- what is refused: one line, exit 2
refused() {
    said
    that "exit $status: $1" [ $status = 2 ]
    that "one line: $1" [ "$(wc -l <"$work/said")" = 1 ]
    has "$1" "$work/said"
}
on 5 run -m "$demo" -p x -n 1
refused '4 layers with attention in a pipeline of 5'

# ---- a NaN in the weights of either rank: all return the same error
for layer in 1 3; do
    cp -r "$demo" "$work/nan$layer"
    chmod -R u+w "$work/nan$layer"
    weights=$work/nan$layer/model.safetensors
    # shellcheck disable=SC2046
    set -- $(LC_ALL=C awk -v name="\"model.layers.$layer.mlp.down_proj.weight\"" 'NR == 1 {
        match($0, name ": [{][^}]*data_offsets\": \\[[0-9]+")
        at = substr($0, RSTART, RLENGTH)
        sub(/.*\[/, "", at)
        print at
    }' "$weights") $(od -An -tu8 -N8 "$weights")
    printf '\377\377\377\377' | dd of="$weights" bs=1 seek=$(($1 + $2 + 8)) conv=notrunc 2>/dev/null
    on 2 run -m "$work/nan$layer" -p and -q
    that "exit $status of a NaN in layer $layer" [ $status = 3 ]
    said
    has "layer $layer, of 0 to 3, is the first" "$work/said"
done

# ---- a NaN that comes with a pass in the middle: the embedding of a word that is there alone
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
