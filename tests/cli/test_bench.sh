#!/bin/sh
# kvcull bench: the counted bytes of every method differ from its formula by at most 1 %, or are within its bound.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

# formulas WHAT: checks the last table of $work/out.
formulas() {
    sed -n '/^Counted numbers/,/^Cache bytes/p' "$work/out" >"$work/table"
    that "$1: every method is there" [ "$(grep -c 'B .*\(%\|within\)' "$work/table")" -ge 20 ]
    narrow
    that "$1: formulas hold" [ -z "$(grep -o '[+-][0-9][0-9.]* %' "$work/table" | awk '$1 > 1.0 || $1 < -1.0')" ]
    that "$1: nothing out of nothing" [ -z "$(grep 'above 0' "$work/table")" ]
}

ok bench -m "$demo" --kv all --prompt 300 --gen 9 --repeat 1 -q
formulas 'prompt of 300'
ok bench -m "$demo" --kv all --prompt 130 --gen 3 --repeat 1 --kv-type q8_0 -q
formulas 'prompt of 130'
ok bench --shape small --kv all --prompt 520 --gen 5 --repeat 1 --kv-type f32 -q
formulas 'a small shape'
ok bench -m "$demo" --kv quest:budget=40 --prompt 200 --gen 3 --repeat 1 --json -q
that 'a bound is called one' [ "$(json decode.0.cache_read_bytes_is)" = 'at most' ]
that 'a peak is exact' [ "$(json prefill.0.peak_bytes_is)" = equal ]
ok bench -m "$demo" --kv adakv:budget=40 --kv cake:budget=120+duo:file=every-other,sinks=3,recent=63+quest:budget=60 \
    --prompt 255 --gen 4 --repeat 1 -q
narrow

ok bench -m "$demo" --kv full --kv window:budget=20 --prompt 30,40 --gen 2 --batch 1,2 --repeat 1 -q
that 'prompts are apart in the table' [ "$(sed -n '/^Prefill/,/^Decode/p' "$work/out" | grep -c '^$')" = 2 ]
narrow

# Tables of operations. tests/core/test_measure.c looks at the rows of each.
ok bench --table int8 --quick --json -q
that 'the table' [ "$(json table)" = int8 ]
that 'the call beside' [ "$(json beside)" = float ]
that 'a limit' [ "$(json rooflines.read_bytes_per_second)" != null ]
that 'its former name' [ "$(json ceilings.fma_flops_per_second)" = "$(json rooflines.fma_flops_per_second)" ]
ok bench --table small-batch --only linear --threads 1 --quick -q
has '^linear .* q4_k, 64 rows, 4096 to 64$'
ok bench --table select --quick
has '^operation .* x full '
has '^sparq .* f16, 32/8 x 128, 1/4:'
ok bench --table prompt --shape tiny --prompt 300 --json -q
that 'each operation of a prompt' [ "$(json operations.0.name)" = linear ]
that 'one call for each layer and matrix' [ "$(json operations.0.calls)" -gt 6 ]
ok bench --table prompt --shape tiny --prompt 300 -q
has '^attention .* %  3 calls$'
has '^rest .* the host$'
kv bench --ops --quick --only quantize_rows --backend ref --beside cpu >"$work/out" 2>"$work/err" </dev/null
that 'an operation that is slower than beside is 1' [ $? = 1 ]
has '^quantize_rows .* !  '
has '^SLOWER than cpu: 1, the first quantize_rows (512 x 2048)$'
ok bench --ops --quick --only quantize_rows --backend cpu --beside ref
has '^No operation is slower than ref'
fails 2 'takes one of operations' bench --table few -q
fails 2 'takes no --kv' bench --table int8 --kv full
fails 2 'takes no --ops, --beside' bench --table prompt --shape tiny --only norm
fails 2 'need --ops or --table' bench --shape tiny --only norm
fails 2 'give one of them' bench --ops --table int8
fails 2 'has no entries' bench --table int8 --entries 4096 -q

# If bench is stopped while it writes a model, no file remains, whatever stopped it.
for signal in TERM KILL; do
    mkdir "$work/$signal"
    TMPDIR=$work/$signal "$program" bench --shape 100m --kv full -q >"$work/out" 2>"$work/err" </dev/null &
    bench=$!
    for i in $(seq 150); do # half a minute, because the machine may be busy
        [ -n "$(ls -A "$work/$signal")" ] && break
        sleep 0.2
    done
    that "$signal: a folder was there" [ -n "$(ls -A "$work/$signal")" ]
    kill -$signal $bench
    wait $bench 2>/dev/null
    for i in $(seq 150); do
        [ -z "$(ls -A "$work/$signal")" ] && break
        sleep 0.2
    done
    nothing_left "$work/$signal"
done
finish
