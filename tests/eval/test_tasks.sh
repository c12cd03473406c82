#!/bin/sh
# kvcull eval TASK...: samples, resumed result files, shards, merged tables, and refused options.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

kv mkmodel --shape thin --type f32 --seed 3 -o "$work/thin.gguf" -q || exit 1
model=$work/thin.gguf
tasks='niah_single_1 fwe'
# run ARGUMENTS...: two tasks, two samples, two policies, both ways to ask: 16 answers
run() { ok eval $tasks -m "$model" --raw --kv full --kv 'streaming:budget=64' --length 1400 --samples 2 -q "$@"; }
lines() { wc -l <"$1" | tr -d ' '; }
# same FILE FILE: the results are equal, ignoring their order, the times, and how many prompts were computed together
same() {
    for file in "$1" "$2"; do
        sed 's/"prompt_us":[0-9]*,"answer_us":[0-9]*,"shared":[0-9]*//' "$file" | sort >"$file.sorted"
    done
    cmp -s "$1.sorted" "$2.sorted"
}
without_times() { grep -v '_seconds"\|"shared"\|prompt_tokens"' "$1" | sed 's/,$//'; }
same_tables() { without_times "$1" >"$work/one"; without_times "$2" >"$work/two"; cmp -s "$work/one" "$work/two"; }

# ---- the list
ok eval --list
for task in niah_single_1 niah_single_2 niah_single_3 niah_multikey_1 niah_multikey_2 niah_multikey_3 niah_multivalue \
    niah_multiquery vt cwe fwe qa_1 qa_2 needle fidelity; do has "^$task "; done
has '^qa_2 .*--hotpotqa'
narrow
rows=$(sed 1d "$work/out" | grep -c '^[a-z]')
ok eval --list --json
that 'the same tasks' [ "$(json tasks)" = "[$rows]" ]
that 'what it needs' [ "$(json tasks.1.needs)" = essays ]
ok eval --help
has '^  vt  '
has '^  merge  '
narrow

# ---- a run, and its file
run --out "$work/whole.jsonl" --json
cp "$work/out" "$work/whole.json"
that 'a row for each task and policy' [ "$(json results)" = '[4]' ]
that 'the first task first' [ "$(json results.0.task) $(json results.3.task)" = 'niah_single_1 fwe' ]
for row in 0 1 2 3; do
    for side in seen unseen; do that "samples $side" [ "$(json results.$row.$side.samples)" = 2 ]; done
done
that 'the budget' [ "$(json results.1.entries)" = 64 ]
that 'full holds more' awk "BEGIN { exit !($(json results.0.held_bytes) > $(json results.1.held_bytes)) }"
that 'a line for each answer' [ "$(lines "$work/whole.jsonl")" = 16 ]
that 'every line is JSON with an answer' [ "$(grep -c '^{.*"answer":".*"score":.*}$' "$work/whole.jsonl")" = 16 ]
that 'full answers alike, asked either way' [ "$(grep '"kv":"full"' "$work/whole.jsonl" |
    sed 's/.*\("task":"[a-z0-9_]*"\).*\("sample":[0-9]*\).*\("answer":.*"score":[0-9.]*\).*/\1\2\3/' | sort -u | wc -l)" = 4 ]
run
has '^niah_single_1 of 1400 tokens$'
has '^all samples of 2 tasks of 1400 tokens$'
has '^full  *[01]\.[0-9]*  *0\.[0-9]*-[01]\.[0-9]*  *[01]\.[0-9]*  *0\.[0-9]*-[01]\.[0-9]*  *2 '
narrow
run --question unseen --json
that 'only that side' [ "$(grep -c '"seen"' "$work/out") $(grep -c '"unseen"' "$work/out")" = '0 4' ]
ok eval vt vt -m "$model" --template chatml --kv full --length 2200,2300 --samples 1 --show 1 --question seen
has '^vt of 2200 tokens'
has '^vt of 2300 tokens'
has '^---- expected' "$work/err"

# ---- together or one by one: the same answers, scores, bytes and hashes
policies='--kv full --kv streaming:budget=64 --kv snapkv:budget=64 --kv h2o:budget=80 --kv dapq:budget=64
    --kv take:budget=64,chunk=128 --kv fastkv:budget=64 --kv quest:budget=128,page=8'
many() { ok eval niah_single_1 -m "$demo" --raw $policies --kv full --length 420 --samples 1 -q --json "$@"; }
many --out "$work/together.jsonl"
that 'eight policies, one of them given twice, asked two ways' [ "$(lines "$work/together.jsonl")" = 16 ]
that 'all of them together' [ "$(grep -c '"shared":8}$' "$work/together.jsonl")" = 16 ]
asked=$(json prompt_tokens)
computed=$(json computed_prompt_tokens)
that 'six of eight share the prompt, or its text' [ $((8 * computed)) -ge $((3 * asked)) ] # 2 and 1 of 8
that 'and nothing else' [ $((100 * computed)) -lt $((43 * asked)) ]
many --alone --out "$work/alone.jsonl"
that 'none of them together' [ "$(grep -c '"shared":1}$' "$work/alone.jsonl")" = 16 ]
that 'the same results' same "$work/together.jsonl" "$work/alone.jsonl"
that 'from the same prompts' [ "$(json prompt_tokens) $(json computed_prompt_tokens)" = "$asked $asked" ]
grep '"question":"seen"' "$work/together.jsonl" >"$work/seen.jsonl"
many --question seen --mem 2M --out "$work/groups.jsonl"
that 'not all fit' [ "$(grep -c '"shared":8}$' "$work/groups.jsonl")" = 0 ]
that 'but some beside each other' grep -q '"shared":[2-7]}$' "$work/groups.jsonl"
that 'the same results in groups' same "$work/groups.jsonl" "$work/seen.jsonl"
ok eval niah_single_1 -m "$demo" --raw --kv full --kv knorm:budget=64 --length 420 --samples 1 -q --question seen
has '^Prompts: [0-9,]* of [0-9,]* tokens computed'
has '^Policies that ran together share their times'
narrow

# ---- resuming
head -n 5 "$work/whole.jsonl" >"$work/part.jsonl"
sed -n 6p "$work/whole.jsonl" | cut -c 1-100 | tr -d '\n' >>"$work/part.jsonl"
cp "$work/part.jsonl" "$work/torn.jsonl"
run --out "$work/part.jsonl" --resume --json
that 'the torn line is dropped, the rest computed' same "$work/part.jsonl" "$work/whole.jsonl"
head -n 5 "$work/part.jsonl" >"$work/begin"
that 'what was there is not written again' [ "$(head -n 5 "$work/whole.jsonl")" = "$(cat "$work/begin")" ]
that 'and the same tables' same_tables "$work/out" "$work/whole.json"
cp "$work/part.jsonl" "$work/before"
run --out "$work/part.jsonl" --resume
that 'nothing is computed again' cmp -s "$work/before" "$work/part.jsonl"
ok eval $tasks -m "$model" --raw --kv full --length 1400 --samples 3 --question seen --out "$work/part.jsonl" --resume
has '^16 results exist' "$work/err"
that 'another sample of each task' [ "$(lines "$work/part.jsonl")" = 18 ]
fails 2 'part.jsonl: the file exists; --resume' eval $tasks -m "$model" --raw --kv full --length 1400 \
    --out "$work/part.jsonl"

# kill -9 at random moments, of the program itself, not of a shell that waits for it
killed=0
tries=0
while [ $tries -lt 60 ]; do
    tries=$((tries + 1))
    "$program" eval $tasks -m "$model" --raw --kv full --kv 'streaming:budget=64' --length 1400 --samples 2 -q \
        --out "$work/killed.jsonl" --resume >/dev/null 2>&1 &
    pid=$!
    before=$(lines "$work/killed.jsonl" 2>/dev/null || echo 0)
    while kill -0 $pid 2>/dev/null; do
        [ -e "$work/killed.jsonl" ] && [ "$(lines "$work/killed.jsonl")" -gt $((${before:-0} + 2)) ] && break
        sleep 0.05
    done
    if kill -9 $pid 2>/dev/null; then killed=$((killed + 1)); fi
    wait $pid 2>/dev/null
    status=$?
    [ $status = 0 ] && break
done
that 'it was killed at least once' [ $killed -gt 0 ]
that 'and ended well in the end' [ $status = 0 ]
that 'the same results as undisturbed' same "$work/killed.jsonl" "$work/whole.jsonl"

# ---- shards
for i in 1 2 3; do run --shard $i/3 --out "$work/shard-$i.jsonl"; done
ok eval merge "$work"/shard-[123].jsonl --json
that 'merged shards are the whole run' same_tables "$work/out" "$work/whole.json"
cat "$work"/shard-[123].jsonl >"$work/shards.jsonl"
that 'and have its results' same "$work/shards.jsonl" "$work/whole.jsonl"
kv eval $tasks -m "$model" --raw --kv full --length 1400 --samples 2 -q --shard 5/5 --out "$work/empty.jsonl" \
    >"$work/out" 2>"$work/err"
that 'an empty shard is no error' [ $? = 0 ]
has 'shard 5/5: has no samples' "$work/err"
ok eval merge "$work/empty.jsonl" "$work/whole.jsonl"
has '^all samples of 2 tasks'
narrow
ok eval merge "$work/whole.jsonl" "$work/shard-1.jsonl" --json
that 'a sample that is twice there counts once' same_tables "$work/out" "$work/whole.json"
has 'count once' "$work/err"
ok eval merge "$work/torn.jsonl" --json
has 'the last line is incomplete' "$work/err"
that 'a torn line is no result' [ "$(json results.0.seen.samples)" = 2 ]

# the script for job arrays
KVCULL=$program SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=40 sh "$source/examples/eval_array.sh" "$model" "$work/array" \
    --raw --length 3000 --samples 1 --question seen >"$work/out" 2>"$work/err"
that 'a job of the array ends well' [ $? = 0 ]
that 'one sample and three policies in its file' [ "$(lines "$work/array/ruler-2.jsonl")" = 3 ]

# ---- the user's files
echo 'Once there was a fox. It was red. "Come here!" it said; nobody came. So it went on.' >"$work/essays"
printf '{"text": "One thing. Another thing. And a third one."}' >"$work/essays.json"
cat >"$work/squad.json" <<'EOF'
{"data": [{"paragraphs": [{"context": "The fox is red.", "qas": [{"question": "Which?", "answers": [{"text": "red"}]}]},
                          {"context": "The owl is gray.", "qas": []}]}]}
EOF
echo '[{"question": "Who?", "answer": "Ann", "context": [["Ann", ["Ann is 9."]], ["Bob", ["Bob is 8."]]]}]' >"$work/hotpotqa.json"
asked() { ok eval "$@" -m "$model" --raw --kv full --samples 1 --question seen -q --out "$work/asked-$1.jsonl"; }
asked niah_single_2 --essays "$work/essays" --length 900
asked niah_multivalue --essays "$work/essays.json" --length 1200
asked qa_1 --squad "$work/squad.json" --length 800
asked qa_2 --hotpotqa "$work/hotpotqa.json" --length 800
has '"data":"[0-9a-f]\{16\}"' "$work/asked-qa_2.jsonl"
kv eval ruler -m "$model" --raw --kv full --samples 1 --length 3000 --question seen -q >"$work/out" 2>"$work/err"
that 'what needs no file runs' [ $? = 0 ]
has 'qa_1 is skipped: it needs --squad FILE' "$work/err"
that 'a line for each skipped task' [ "$(grep -c 'is skipped' "$work/err")" = 7 ]
that 'six tasks' [ "$(grep -c ' of 3000 tokens$' "$work/out")" = 7 ]

# ---- refused options
fails 2 'no task' eval
fails 2 'no task' eval -m "$model" --kv full
fails 2 'did you mean vt' eval vtt
fails 2 'no such task' eval vt,cwe
fails 2 'did you mean --samples' eval vt --sample 3
fails 2 'run it as kvcull eval needle' eval vt needle
fails 2 'no model' eval vt --kv full
fails 2 'no policy' eval vt -m "$model" --raw
fails 2 'budget' eval vt -m "$model" --raw --kv snapkv:budget=0
fails 3 'none' eval vt -m "$work/none" --raw --kv full
fails 2 'no chat template; --raw' eval vt -m "$model" --kv full
fails 2 'nosuch' eval vt -m "$model" --kv full --template nosuch
fails 2 'need one' eval vt -m "$model" --kv full --raw --template chatml
fails 2 'takes one of both' eval vt --question never
for value in x 0/3 4/3 1/0 1/x 1/ /1 1/2/3 -1/2 1/99999999999999999999; do
    fails 2 'must be I/N' eval vt -m "$model" --kv full --raw --shard=$value
done
fails 2 'length' eval vt --length 63
fails 2 'samples' eval vt --samples 0
fails 2 'resume needs --out' eval vt -m "$model" --kv full --raw --resume
fails 2 'must not exceed --ctx 1000' eval vt -m "$model" --kv full --raw --ctx 1000 --length 2000
fails 2 '--length 100: the shortest prompt of vt has' eval vt -m "$model" --kv full --raw --length 100 -q
fails 4 'none/x.jsonl' eval vt -m "$model" --kv full --raw --length 2200 -q --out "$work/none/x.jsonl"
fails 4 'cannot be written' eval vt -m "$model" --kv full --raw --length 2200 -q --out "$work"
fails 2 'the name is empty' eval vt -m "$model" --kv full --raw --length 2200 -q --out ''
fails 2 'standard output' eval vt -m "$model" --kv full --raw --length 2200 -q --out -
mkfifo "$work/pipe"
fails 4 'cannot be written' eval vt -m "$model" --kv full --raw --length 2200 -q --out "$work/pipe"
if [ -w /dev/full ]; then
    fails 4 'not a regular file' eval vt -m "$model" --kv full --raw --length 2200 -q --out /dev/full
fi
kv eval qa_1 -m "$model" --raw --kv full >"$work/out" 2>"$work/err"
that 'a task without its file, and no other' [ $? = 2 ]
has 'it needs --squad' "$work/err"
fails 3 'none' eval qa_1 -m "$model" --raw --kv full --squad "$work/none"
fails 3 'not JSON' eval qa_1 -m "$model" --raw --kv full --squad "$work/essays"
fails 3 'not an array' eval qa_2 -m "$model" --raw --kv full --hotpotqa "$work/squad.json"
# wrong TASK OPTION PATTERN JSON: a file of questions in which something is missing
wrong() {
    printf '%s' "$4" >"$work/questions.json"
    fails 3 "questions.json: $3" eval "$1" -m "$model" --raw --kv full "$2" "$work/questions.json"
}
squad() { wrong qa_1 --squad "$@"; }
squad 'the file: not SQuAD' '{"data": 1}'
squad 'data\[0\]: no array "paragraphs"' '{"data": [{"paragraphs": 5}]}'
squad 'data\[0\].paragraphs\[1\]: no text "context" or no array "qas"' \
    '{"data": [{"paragraphs": [{"context": "a", "qas": []}, {"context": 5, "qas": []}]}]}'
squad 'data.*.qas\[0\]: a question without a text' \
    '{"data": [{"paragraphs": [{"context": "a", "qas": [{"answers": [{"text": "b"}]}]}]}]}'
squad 'data.*.qas\[0\]: an answer without a text' \
    '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": [5]}]}]}]}'
squad 'no question with an answer and a document' \
    '{"data": [{"paragraphs": [{"context": "a", "qas": [{"question": "b"}]}]}]}'
hotpotqa() { wrong qa_2 --hotpotqa "$@"; }
hotpotqa '\[0\]: needs texts "question" and "answer" and an array "context"' '[{"question": "a", "answer": "b"}]'
hotpotqa '\[0\].context\[1\]: not a title with an array of sentences' \
    '[{"question": "a", "answer": "b", "context": [["c", ["d"]], ["e", "f"]]}]'
hotpotqa 'no question with an answer and a document' '[]'
: >"$work/empty"
printf 'caf\351 au lait' >"$work/latin1"
fails 3 'byte 3: not UTF-8' eval niah_single_2 -m "$model" --raw --kv full --essays "$work/latin1"
printf '\377\376{\000}\000' >"$work/utf16"
fails 3 'is UTF-16' eval qa_1 -m "$model" --raw --kv full --squad "$work/utf16"
fails 3 'file is empty' eval niah_single_2 -m "$model" --raw --kv full --essays "$work/empty"
fails 2 'has only 1 questions' eval qa_1 -m "$model" --raw --kv full --squad "$work/squad.json" --samples 2
# if a length is too short for one of several tasks, this is reported before anything is computed
fails 2 'shortest prompt of cwe' eval fwe cwe -m "$model" --raw --kv full --length 700 -q --out "$work/short.jsonl"
that 'nothing was computed' [ ! -s "$work/short.jsonl" ]
# files that are not results
for text in '{}' '[]' 'x' '{"model": 5}'; do
    echo "$text" >"$work/wrong.jsonl"
    fails 3 'wrong.jsonl: line 1: not a result' eval merge "$work/wrong.jsonl"
    fails 3 'line 1' eval vt -m "$model" --kv full --raw --length 2200 -q --out "$work/wrong.jsonl" --resume
    that 'and it stays as it is' [ "$(cat "$work/wrong.jsonl")" = "$text" ]
done
# a file without any line end is not a truncated result: it is not replaced either
for text in 'a text' '{"modes":1}'; do
    printf '%s' "$text" >"$work/wrong.jsonl"
    fails 3 'wrong.jsonl: the file does not end with a result' eval vt -m "$model" --kv full --raw --length 2200 -q \
        --out "$work/wrong.jsonl" --resume
    that 'and it stays as it is' [ "$(cat "$work/wrong.jsonl")" = "$text" ]
done
for change in 's/"score":[0-9.]*/"score":7/' 's/"question":"seen"/"question":"heard"/' 's/"length":1400/"length":-1/' \
    's/"kv":"full",//'; do
    head -n 1 "$work/whole.jsonl" | sed "$change" >"$work/wrong.jsonl"
    fails 3 'line 1: not a result' eval merge "$work/wrong.jsonl"
done
sed '1s/"answer":"/&x/' "$work/whole.jsonl" >"$work/other.jsonl"
fails 3 'other.jsonl: line 1: another record has a different answer' eval merge "$work/whole.jsonl" "$work/other.jsonl"
fails 2 'no file' eval merge
fails 3 'none' eval merge "$work/none"
fails 3 'has no results' eval merge "$work/empty"
# a disk that becomes full: computed results are kept
(ulimit -f 2; trap '' XFSZ; kv eval $tasks -m "$model" --raw --kv full --kv 'streaming:budget=64' --length 1400 \
    --samples 2 -q --out "$work/full.jsonl" >"$work/out" 2>"$work/err")
that 'a full disk is 4' [ $? = 4 ]
has 'full.jsonl: cannot be written: File too large; --resume continues' "$work/err"
run --out "$work/full.jsonl" --resume
that 'and it goes on from there' same "$work/full.jsonl" "$work/whole.jsonl"
finish
