#!/bin/sh
# --ranks pipeline: ranks with consecutive layers give the results of one process; and refused options.
. "${top_srcdir:-.}/tests/ranks/lib.sh"

# on RANKS ARGUMENTS...: a command that hangs ends after five minutes
on() {
    count=$1
    shift
    timeout 300 $start -n "$count" "$each" "$@" --ranks pipeline >"$work/out" 2>"$work/err" </dev/null
    status=$?
}

# ---- every method but kvcompose, with the first spec stored for it that does not compare entries of all layers; these
# include cake and take, whose layers depend on each other
stored=$(sed -n 's/^method \(.*\) [0-9a-f]* [0-9a-f]* [0-9a-f]*$/\1/p' "$KVCULL_DATA/hashes.txt" | grep -v '[+" ]\|^int8:\|^int16:')
every=$(echo "$stored" | grep -v '^kvcompose:\|^fastkvzip:.*=drawn$' | awk -F: '!seen[$1]++')
that 'there are methods' [ "$(echo "$every" | wc -l)" -ge 35 ]
chunk=
equal() {
    count=$1
    shift
    # shellcheck disable=SC2046
    on "$count" verify $(for spec; do printf ' --kv %s' "$spec"; done) --backend cpu --threads 1 --only methods \
        --against stored --json -q ${chunk:+--chunk "$chunk"}
    that "$count ranks: exit $status" [ $status = 0 ]
    that "$count ranks: equal" [ "$(json equal)" = true ]
    that "$count ranks: by stored hashes" [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
}
# shellcheck disable=SC2086
equal 2 $every
# 3 ranks: one has two of 4 layers; 4 ranks: rows that are left out or added pass through each of them
few=$(echo "$stored" | grep '^\(full\|cake:.*\|take:.*\|fastkv:.*\|dapq:.*\|h2o:.*per=head\|random:.*\|sparq:[^,]*\)$' | awk -F: 'n[$1]++ < 2')
# shellcheck disable=SC2086
{
    equal 3 $few
    KVCULL_RANKS=synchronous
    export KVCULL_RANKS
    equal 4 $few
    unset KVCULL_RANKS
}

# Parts of a prompt flow through the ranks: numbers of rows that do not divide evenly, and chunks whose first layers
# need no other rank's results.
flowing=$(echo "$stored" | grep '^\(full\|sparq:[^,]*\|quest:.*\|hsa:.*\|topk:.*\|take:.*probe=8\|rkv:.*every=4\)$')
for chunk in 13 64; do
    # shellcheck disable=SC2086
    equal 2 $flowing
done
chunk=

# ---- prompts in progress together, steps in groups, calls in between: the output equals that of one process
flow() { # RANKS MODEL...
    count=$1
    shift
    timeout 300 $start -n "$count" "$build/tests/ranks/flow" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
"$build/tests/ranks/flow" "$demo" >"$work/one" 2>"$work/err" || bad 'one process'
that 'it has prompts and steps' [ "$(wc -l <"$work/one")" = 17 ]
that 'two prompts are interrupted' [ "$(grep -c ': 2: prompt: interrupted by the program$' "$work/one")" = 2 ]
for ranks in 2 3 4; do
    flow $ranks "$demo"
    that "flow on $ranks ranks: exit $status" [ $status = 0 ]
    that "flow on $ranks ranks: the same" cmp -s "$work/one" "$work/out"
    # ten passes of seven rows; for each pass two messages to every higher rank, and one from the last rank to the
    # others
    that 'ten passes' [ "$(sed -n 's/^messages //p' "$work/err")" -ge $((10 * 3 * (ranks - 1))) ]
done
KVCULL_RANKS=synchronous
export KVCULL_RANKS
flow 3 "$demo"
that 'flow, synchronous: the same' cmp -s "$work/one" "$work/out"
unset KVCULL_RANKS
tail -n 3 "$work/one" >"$work/last"
flow 2 "$demo" tensor
that 'two processes that share layers are interrupted alike' cmp -s "$work/last" "$work/out"

on 2 bench -m "$demo" --prompt 64 --chunk 8 --gen 4 --repeat 1 --threads 1 --json -q
that 'bench: how many ranks computed at once' awk "BEGIN { n = $(json prefill.0.ranks_computing); exit !(0 < n && n <= 2) }"

# ---- what is printed about the layers of all ranks
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

# ---- refused options: one line, exit status 2
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
    # the first of many passes fails while the others are in progress
    flow 3 "$work/nan$layer" nan
    that "exit $status: a pass fails in layer $layer" [ $status = 0 ]
    has "^prompt full 4: 3: position 3: .*layer $layer, of 0 to 3, is the first"
done
finish
