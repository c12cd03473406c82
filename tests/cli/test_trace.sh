#!/bin/sh
# test_trace.sh - traces: equal for every backend of the CPU, chunk and number of threads; a mutant of each operation is
# the first difference; wrong files and options are refused.
. "${top_srcdir:-.}/tests/cli/lib.sh"
. "${top_srcdir:-.}/tests/cli/trace_runs.sh"
not_in_valgrind

trace_models
traced "$work/a" demo snapkv:budget=66 --threads 1 || bad 'no run'
cp "$work/a" "$work/ref"
traced "$work/b" demo snapkv:budget=66 --threads 2 --chunk 13 || bad 'no run'
ok trace compare "$work/a" "$work/b"
has '^no difference in [0-9]* outputs$'
traced "$work/b" demo snapkv:budget=66 --backend ref || bad 'no run'
ok trace compare "$work/a" "$work/b"
has '^no difference in [0-9]* outputs$'

# Every operation that a run can use has a line.
kv verify --only operations --backend ref --effort 0 --small --json -q | grep -o '"name": "[a-z0-9_]*"' |
    cut -d'"' -f4 | sort -u >"$work/all"
printf '%s\n' "$runs" | cut -d' ' -f1 | cat - "$work/none" 2>/dev/null | sort -u >"$work/listed"
that 'operations without a run' \
    [ "$(comm -23 "$work/all" "$work/listed" | tr '\n' ' ')" = 'buffer_create copy download entries fma_loop upload zero ' ]
trace_each

# Values: both are printed, and in JSON.
traced "$work/a" demo full --trace-values 5:1:rope
KVCULL_INJECT=norm traced "$work/b" demo full --trace-values '*:*:norm'
that 'values of one operation' [ "$(awk 'NF > 9 && !/^#/ { print $2, $3, $4 }' "$work/a" | sort -u)" = '5 layer1 rope' ]
traced "$work/a" demo full --trace-values '*:*:norm'
kv trace compare "$work/a" "$work/b" >"$work/out"
that 'exit status 1' [ $? = 1 ]
has '1 of 128 values differ; the first is number 127: [0-9a-f]\{8\} (.*) in the first trace, [0-9a-f]\{8\} (.*) in the'
kv trace compare "$work/a" "$work/b" --json >"$work/out"
has '"operation": "norm"'
has '"first_bits": [0-9]'

# A step of three sessions: each row has its own session.
ok bench -m "$demo" --kv full --prompt 20 --gen 2 --batch 3 --repeat 1 --trace "$work/batch" -q
that 'three sessions in a step' [ "$(awk '$2 == 20 && $3 == "layer1" && $4 == "attention" && $5 == "out" && $6 == 0 { print $1 }' \
    "$work/batch" | sort -u | wc -l)" = 3 ]

# Without a trace KVCULL_INJECT has no effect.
KVCULL_INJECT=norm ok logits -m "$demo" --tokens 5,6,7
cp "$work/out" "$work/first"
ok logits -m "$demo" --tokens 5,6,7
that 'no mutant without --trace' cmp -s "$work/out" "$work/first"

# Wrong options and files.
fails 2 'works with --trace FILE' logits -m "$demo" --tokens 5 --trace-values all
for values in '' all:1 1:x 1:2:nosuch 1:2:rope:3 -1 1: '*x' 99999999999999999999; do
    [ "$values" = 1: ] && continue # an empty layer is every layer
    fails 2 'must be all or POSITION' logits -m "$demo" --tokens 5 --trace "$work/t" --trace-values "$values"
done
echo 'my notes' >"$work/notes"
fails 2 'exists and is not a trace' logits -m "$demo" --tokens 5 --trace "$work/notes"
that 'the file is as before' [ "$(cat "$work/notes")" = 'my notes' ]
fails 4 'cannot be written' logits -m "$demo" --tokens 5 --trace "$work/nosuch/t"
fails 2 'the name is empty' logits -m "$demo" --tokens 5 --trace ''
[ -w /dev/full ] && fails 4 'trace /dev/full: cannot be written: No space left' logits -m "$demo" --tokens 5 --trace /dev/full
fails 2 'give compare and two files' trace
fails 2 'give compare and two files' trace compare "$work/a"
fails 2 'give compare and two files' trace show "$work/a" "$work/b"
fails 3 'nosuch' trace compare "$work/nosuch" "$work/a"
fails 3 'is not a trace' trace compare "$work/a" "$work/notes"
: >"$work/empty"
fails 3 'is empty' trace compare "$work/empty" "$work/a"
for line in '0 0 layer0 rope y 0 f32 32' '0 0 layer0' '0 0 layer0 rope y 0 f32 x 0123456789abcdef' \
    '0 0 layer0 rope y 0 f32 32 0123456789abcde' '0 0 layer0 rope y 0 f32 32 0123456789abcdeg'; do
    printf 'kvcull trace 1\n%s\n' "$line" >"$work/damaged"
    fails 3 'line 2 is not a line of a trace' trace compare "$work/damaged" "$work/a"
done
printf 'kvcull trace 1\n0 7777777 layer0 rope y 0 f32 32 0123456789abcdef\n' >"$work/other"
fails 3 'have no output in common' trace compare "$work/other" "$work/a"
head -c 100000 "$work/ref" >"$work/cut" # a run that was interrupted within a line
ok trace compare "$work/cut" "$work/ref"
has 'no difference in [0-9]* outputs; 0 outputs are only in the first trace, [1-9][0-9]* only in the second'
finish
