#!/bin/sh
# Every method on 1, 2, 3, 4, 6 and 8 ranks, by heads, by layers and by both: the hashes equal those of one process.
# Four ways to divide the work run with every entry type, the others with one. It takes minutes; `./dev check --ranks`
# runs it.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
[ -n "${KVCULL_TEST_WHOLE-}" ] || { echo 'elsewhere: ./dev check --ranks runs this'; exit 77; }
types=${KVCULL_TEST_TYPES-f32 f16 q8_0}
stored=$(sed -n 's/^method \(.*\) [0-9a-f]* [0-9a-f]* [0-9a-f]*$/\1/p' "$KVCULL_DATA/hashes.txt" | grep -v -e '[+" ]' -e ^int8: -e ^int16:)
every=$(echo "$stored" | awk -F: '!seen[$1]++ || /^fastkvzip:.*per=layer$/ { printf " --kv %s", $0 }')
# kvcompose and fastkvzip compare entries of all layers, so a pipeline refuses them, but not fastkvzip with per=layer.
layered=$(echo "$every" | sed 's/ --kv kvcompose:[^ ]*//; s/ --kv fastkvzip:[^ ]*=drawn / /')
across=$(echo "$stored" | grep -E '^(full|adakv|cake|duo|fastkv|take|sparq|h2o)(:|$)' |
    awk -F: 'n[$1]++ < 2 { printf " --kv %s", $0 }')
that 'there are methods' [ "$(echo "$every" | tr ' ' '\n' | grep -c -e --kv)" -ge 35 ]

# One process alone computes the hashes that all others must have.
for type in $types; do
    # shellcheck disable=SC2086
    ok verify --backend cpu --threads 1 --only methods --prompt 90 --gen 6 --kv-type $type --json -q $every
    grep '"name"\|hash"' "$work/out" >"$work/alone.$type"
    that "$type: hashes" [ "$(grep -c hash "$work/alone.$type")" -ge 35 ]
done
for type in $types; do
    awk '/"name"/ { skip = /kvcompose|fastkvzip.*=drawn"/ } !skip' "$work/alone.$type" >"$work/layered.$type"
done
that 'two methods are left out' [ "$(grep -c name "$work/layered.$type")" = $(($(grep -c name "$work/alone.$type") - 2)) ]
# several RANKS WAY...: runs for each type.
several() {
    case $* in *pipeline*) methods=$layered expected=layered ;; *) methods=$every expected=alone ;; esac
    for type in $types; do
        count=$1
        shift
        # shellcheck disable=SC2086
        same "$type, $*" "$count" verify --backend cpu --threads 1 --only methods --prompt 90 --gen 6 --kv-type $type \
            --json -q --ranks "$@" $methods
        grep '"name"\|hash"' "$work/out" >"$work/several"
        that "$type, $*: the hashes of one process" cmp -s "$work/$expected.$type" "$work/several"
        set -- "$count" "$@"
    done
}
several 2 tensor
several 2 pipeline
several 3 tensor # one of them has a copy of another rank's head
several 4 tensor=2,pipeline=2
# The other ways run with one type each, in turn: the division of layers and heads does not depend on the type.
all_types=$types turn=0
once() {
    # shellcheck disable=SC2086
    types=$(set -- $all_types; shift $((turn % $#)); echo "$1")
    turn=$((turn + 1))
    several "$@"
}
once 1 tensor
once 3 pipeline
once 4 tensor
once 4 pipeline
once 6 tensor=2,pipeline=3 --share 1,2,3,1,1,5
once 8 tensor
once 8 tensor=2,pipeline=4
once 8 tensor=4,pipeline=2
# A model with more layers than the bundled one.
ok mkmodel --shape 100m --type q8_0 -o "$work/100m.gguf" -q
same 'pipeline of 8' 8 verify --backend cpu --threads 1 --only methods --prompt 20 --gen 2 -m "$work/100m.gguf" \
    --json -q --ranks pipeline --kv full --kv cake:budget=12,window=4 --kv h2o:budget=12
that 'pipeline of 8: equal' [ "$(json equal)" = true ]

# Rows that are gathered in eight bits, if each rank has whole blocks of 32; with three ranks some are floats.
int8() { # RANKS HOW...
    ranks=$1
    shift
    for shape in small small-experts; do
        same "$shape, $*" $ranks verify --backend cpu --threads 1 --only methods --prompt 90 --gen 6 --math int8 \
            -m "$work/$shape.gguf" --json -q --kv full --kv snapkv:budget=40 --kv h2o:budget=40 --ranks "$@"
        that "$shape, $*: equal" [ "$(json equal)" = true ]
    done
}
for shape in small small-experts; do ok mkmodel --shape $shape --type q8_0 -o "$work/$shape.gguf" -q; done
int8 2 tensor
int8 2 tensor --share 3,1
int8 3 tensor
int8 4 tensor
int8 4 tensor=2,pipeline=2

# Sends that wait for their receivers, in all modes.
KVCULL_RANKS=synchronous
export KVCULL_RANKS
for how in '2 tensor' '2 pipeline' '3 pipeline' '4 tensor=2,pipeline=2' '8 tensor=2,pipeline=4'; do
    # shellcheck disable=SC2086
    same "synchronous, $how" ${how% *} verify --backend cpu --threads 1 --only methods --prompt 90 --gen 6 --json -q \
        --ranks ${how#* } $across
    that "synchronous, $how: equal" [ "$(json equal)" = true ]
done
int8 4 tensor
# Every other rank acts as if on a second machine: the ranks that divide layers are placed together.
KVCULL_RANKS=machines
# shellcheck disable=SC2086
same 'two machines' 4 verify --backend cpu --threads 1 --only methods --prompt 90 --gen 6 --json -q \
    --ranks tensor=2,pipeline=2 $across
that 'two machines: equal' [ "$(json equal)" = true ]
unset KVCULL_RANKS
finish
