#!/bin/sh
# Whole runs on several processes have the stored hashes of one process, for any number of ranks.
. "${top_srcdir:-.}/tests/ranks/lib.sh"

# equal RANKS OPTIONS...: the runs equal those of one process.
equal() {
    same verify "$@" --backend cpu --threads 1 --only methods --json -q
    that "$*: equal" [ "$(json equal)" = true ]
}
# Prints specs as arguments; these contain neither blanks nor quotes.
kv_of() { for spec; do printf ' --kv %s' "$spec"; done; }
stored=$(sed -n 's/^method \(.*\) [0-9a-f]* [0-9a-f]* [0-9a-f]*$/\1/p' "$KVCULL_DATA/hashes.txt" | grep -v -e '[+" ]' -e ^int8: -e ^int16:)

# Every method, with the first spec stored for it.
every=$(echo "$stored" | awk -F: '!seen[$1]++')
that 'there are methods' [ "$(echo "$every" | wc -l)" -ge 35 ]
# Methods that decide across heads or layers, leave out or add rows, read less, or have lists per query head. One of
# three ranks has a copy of another rank's head.
few=$(echo "$stored" | grep -e '^full$' -e '^\(snapkv\|adakv\|cake\|fastkv\|take\|duo\|random\|triattention\|keyformer\|sparq\|hsa\|compactor\|criticalkv\|kvzip\|h2o\):[^,]*$' -e '^h2o:.*per=head$' -e '^streaming:.*positions=cache$' |
    awk '{ split($0, part, ":"); if (n[part[1]]++ < 2) print }')
that 'a few of them' [ "$(echo "$few" | wc -l)" -ge 12 ]
# shellcheck disable=SC2046,SC2086
{
    equal 2 verify --against stored $(kv_of $every)
    that 'no run was of one process' [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
    equal 3 verify --against stored $(kv_of $few)
}
# Another entry type, integers, and sends that wait for their receivers, compared with ref, which runs in one process.
# Of eight ranks most have no head of their own.
equal 2 verify --kv full --kv snapkv:budget=40 --kv morphkv:budget=40 --kv-type q8_0 --prompt 90 --gen 6
equal 3 verify --kv full --kv adakv:budget=40 --kv sparq:budget=40 --math int8 --prompt 90 --gen 6
equal 3 verify --kv full --kv adakv:budget=40 --math int16 --prompt 90 --gen 6
# Two ranks have whole blocks of 256 inputs, which are gathered as integers.
ok mkmodel --shape small -o "$work/small.gguf" -q
equal 2 verify -m "$work/small.gguf" --kv full --math int16 --prompt 90 --gen 2
equal 8 verify --kv adakv:budget=40 --kv 'h2o:budget=40,per=head' --prompt 60 --gen 3
KVCULL_RANKS=synchronous
export KVCULL_RANKS
equal 3 verify --kv full --kv cake:budget=40 --kv fastkv:budget=40 --kv hsa:budget=40 --prompt 90 --gen 6
unset KVCULL_RANKS

# Commands print the same as one process.
for command in "run -m $demo -n 12 --temp 0 -q --kv snapkv:budget=40 -f $demo/README.md" \
    "perplexity -m $demo --kv streaming:budget=64 --ctx 300 --json -q -f $demo/README.md"; do
    # shellcheck disable=SC2086
    {
        ok $command
        sed '/second\|bytes/d' "$work/out" >"$work/alone" # ranks have blocks of their own
        same 'a command' 2 $command
    }
    sed '/second\|bytes/d' "$work/out" >"$work/shared"
    that "the same of ${command%% *}" cmp -s "$work/alone" "$work/shared"
done
finish
