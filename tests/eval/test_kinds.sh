#!/bin/sh
# kvcull eval's other tasks: facts at depths, several questions about one text, long answers, text windows; their
# records, tables, resume, shards, and refused options.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

kv mkmodel --shape thin --type f32 --seed 3 -o "$work/thin.gguf" -q || exit 1
model=$work/thin.gguf
# run TASK... OPTIONS...: with two policies
run() { ok eval "$@" -m "$model" --raw --kv full --kv 'streaming:budget=64' -q; }
lines() { wc -l <"$1" | tr -d ' '; }
same() {
    for file in "$1" "$2"; do
        sed 's/"prompt_us":[0-9]*,"answer_us":[0-9]*//' "$file" | sort >"$file.sorted"
    done
    cmp -s "$1.sorted" "$2.sorted"
}
without_times() { grep -v '_seconds"\|"shared"\|prompt_tokens"' "$1" | sed 's/,$//'; }
same_tables() { without_times "$1" >"$work/one"; without_times "$2" >"$work/two"; cmp -s "$work/one" "$work/two"; }

# ---- depths
run niah kv_retrieval --length 900,1300 --samples 3 --depths 3 --out "$work/depths.jsonl" --json
cp "$work/out" "$work/depths.json"
that 'a record for each task, length, depth, policy and way to ask' [ "$(lines "$work/depths.jsonl")" = 48 ]
that 'each depth is there' [ "$(grep -c '"depth":0.5,' "$work/depths.jsonl")" = 16 ]
that 'and each has its number in the JSON' [ "$(json depths)" = '[48]' ]
run niah kv_retrieval --length 900,1300 --samples 3 --depths 3
has '^niah, --kv full, question seen: score at each depth'
has '^depth   *900  *1300$'
has '^ *50 %  *[01]\.[0-9][0-9]  *[01]\.[0-9][0-9]$'
that 'a table for each policy and way to ask' [ "$(grep -c '^depth ' "$work/out")" = 8 ]
narrow
run niah kv_retrieval --length 900,1300 --samples 3 --depths 3 --out "$work/depths.jsonl" --resume --json
that 'nothing is computed again' [ "$(lines "$work/depths.jsonl")" = 48 ]
that 'the same tables' same_tables "$work/out" "$work/depths.json"
run niah --length 900 --samples 2 --depths 5 --question seen --out "$work/depths.jsonl" --resume
that 'other depths are other samples' [ "$(lines "$work/depths.jsonl")" = 50 ]
for i in 1 2; do run niah kv_retrieval --length 900,1300 --samples 3 --depths 3 --shard $i/2 --out "$work/d$i.jsonl"; done
ok eval merge "$work/d1.jsonl" "$work/d2.jsonl" --json
that 'merged shards are the whole run' same_tables "$work/out" "$work/depths.json"

# ---- several questions
run scb_mf scb_mf_requests --length 1200 --samples 2 --out "$work/turns.jsonl" --json
cp "$work/out" "$work/turns.json"
that 'a record for each turn' [ "$(lines "$work/turns.jsonl")" = 80 ]
that 'of five' [ "$(grep -c '"turn":5,"turns":5,' "$work/turns.jsonl")" = 16 ]
that 'a conversation is one sample' [ "$(json results.0.seen.samples)" = 2 ]
that 'each turn by itself' [ "$(json turns)" = '[40]' ]
that 'full answers requests alike, asked either way' [ "$(grep '"task":"scb_mf_requests".*"kv":"full"' \
    "$work/turns.jsonl" | sed 's/.*\("sample":[0-9]*\).*\("turn":[0-9]\).*\("answer":.*"score":[0-9.]*\).*/\1\2\3/' |
    sort -u | wc -l)" = 10 ]
that 'and turns, too' [ "$(grep '"task":"scb_mf",.*"kv":"full"' "$work/turns.jsonl" |
    sed 's/.*\("sample":[0-9]*\).*\("turn":[0-9]\).*\("answer":.*"score":[0-9.]*\).*/\1\2\3/' | sort -u | wc -l)" = 10 ]
head -n 13 "$work/turns.jsonl" >"$work/part.jsonl" # the third turn of a conversation
run scb_mf scb_mf_requests --length 1200 --samples 2 --out "$work/part.jsonl" --resume --json
that 'a conversation that broke off goes on' same "$work/part.jsonl" "$work/turns.jsonl"
that 'with the same tables' same_tables "$work/out" "$work/turns.json"
ok eval merge "$work/turns.jsonl"
has '^scb_mf of 1200 tokens: score of each turn$'
has '^policy  *question  *1  *2  *3  *4  *5$'
has '^full  *unseen  *[01]\.[0-9]'
narrow
run scb_vt scb_niah scb_kv scb_kv_requests --length 3600 --samples 1 --question unseen --out "$work/more.jsonl"
that 'four, four, five and five questions' [ "$(lines "$work/more.jsonl")" = 36 ]
ok eval scb_mf -m "$model" --template chatml --kv full --length 1400 --samples 1 --show 1 --question seen
that 'every question is shown' [ "$(grep -c '^---- question' "$work/err")" = 5 ]

# ---- a long answer
run list --length 1700 --samples 1 --out "$work/list.jsonl" --json
that 'what is held while it grows' [ "$(grep -c '"answer_peak_bytes":[0-9]*,"memory":\[\[0,[0-9]*\],\[' "$work/list.jsonl")" = 4 ]
that 'as far as it grew' [ "$(json memory.0.tokens | cut -d. -f1)" = 0 ]
that 'full grows' awk "BEGIN { exit !($(json memory.1.bytes) >= $(json memory.0.bytes)) }"
that 'how much of it is repeated' [ "$(grep -c '"values":{"repeated":[01]\.[0-9]*}' "$work/list.jsonl")" = 4 ]
run list --length 1700 --samples 1 --question seen
has '^list of 1700 tokens: means of further values'
has '^list of 1700 tokens: bytes of cache and state'
narrow

# ---- windows of a text
i=0
while [ $i -lt 120 ]; do echo "$i foxes and $((i * 7 % 31)) owls met; nobody counted them."; i=$((i + 1)); done >"$work/text"
run perplexity --length 128 --samples 3 --text "$work/text" --out "$work/text.jsonl" --json
cp "$work/out" "$work/text.json"
that 'a record for each window and policy' [ "$(lines "$work/text.jsonl")" = 6 ]
that 'it is no share' [ "$(grep -c '"question":"none".*"unit":"nats/token"' "$work/text.jsonl")" = 6 ]
task0=$(json results.0.measured.score)
task1=$(json results.1.measured.score)
that 'an interval around it' awk "BEGIN { exit !($(json results.0.measured.low) < $task0 && $task0 < $(json results.0.measured.high)) }"
ok perplexity -m "$model" -f "$work/text" --ctx 128 --windows 3 --kv full --kv 'streaming:budget=64' -q --json
that 'as the command finds, full' awk "BEGIN { d = $(json results.0.loss) - $task0; exit !(d * d < 1e-12) }"
that 'and streaming' awk "BEGIN { d = $(json results.1.loss) - $task1; exit !(d * d < 1e-12) }"
run perplexity --length 128 --samples 3 --essays "$work/text"
has '^policy  *nats/token  *95 %  *perplexity  *n  '
has '^full  *[0-9.]*  *[0-9.]*\.\.[0-9.]*  *[0-9.]*  *3 '
narrow
head -n 3 "$work/text.jsonl" >"$work/part.jsonl"
run perplexity --length 128 --samples 3 --text "$work/text" --out "$work/part.jsonl" --resume
that 'it goes on' same "$work/part.jsonl" "$work/text.jsonl"
run fidelity_recall vt --length 2200 --samples 1 --text "$work/text" --question seen
that 'only tasks that ask are added up' [ "$(grep -c '^all samples' "$work/out")" = 0 ]
has '^policy  *share  *95 %  *n  '
has '^fidelity_recall of 2200 tokens: means of further values'
narrow
run fidelity_recall --length 300 --samples 2 --text "$work/text" --out "$work/fidelity.jsonl" --json
that 'full holds all' [ "$(json results.0.measured.score)" = 1 ]
recall=$(sed -n 's/.*"sample":0,"kv":"streaming.*"score":\([0-9.e-]*\),.*/\1/p' "$work/fidelity.jsonl")
kl=$(sed -n 's/.*"sample":0,"kv":"streaming.*"KL":\([0-9.e-]*\),.*/\1/p' "$work/fidelity.jsonl")
ok eval fidelity -m "$model" -f "$work/text" --prompt 236 --gen 64 --kv 'streaming:budget=64' -q --json
that 'the recall that the command finds' awk "BEGIN { d = $(json results.0.recall) - $recall; exit !(d * d < 1e-12) }"
that 'and the divergence' awk "BEGIN { d = $(json results.0.kl) - $kl; exit !(d * d < 1e-12) }"

# ---- refused options
fails 2 'did you mean scb_kv?' eval scb_kw
fails 2 'did you mean kv_retrieval?' eval kv_retreival
fails 2 'did you mean perplexity?' eval perplexty
kv eval perplexity -m "$model" --kv full >"$work/out" 2>"$work/err"
that 'a text is needed' [ $? = 2 ]
has 'perplexity is skipped: it needs --text FILE' "$work/err"
fails 3 'none' eval perplexity -m "$model" --raw --kv full --text "$work/none"
fails 2 'windows of --length 4096; give fewer samples' eval perplexity -m "$model" --raw --kv full --text "$work/text"
fails 2 'shortest prompts of scb_kv have' eval niah scb_kv -m "$model" --raw --kv full --length 700 --samples 1 -q
fails 2 'shortest prompt of list has' eval list -m "$model" --raw --kv full --length 64 -q
fails 2 'depths' eval niah --depths 1
echo '{"data": [{"paragraphs": [{"context": "The fox is red.", "qas": [{"question": "Which?", "answers": [{"text": "red"}]}]}]}]}' \
    >"$work/squad.json"
fails 2 'has 1 questions, and each sample of scb_qa needs 5' eval scb_qa -m "$model" --raw --kv full --squad "$work/squad.json" --samples 1
for change in 's/"unit":"[^"]*"/"unit":"miles"/' 's/"question":"none"/"question":"never"/' 's/"score":[0-9.]*/"score":"x"/' \
    's/"unit":"[^"]*"/"values":{"a|b":1}/' 's/"unit":"[^"]*"/"turn":3,"turns":2/' 's/"unit":"[^"]*"/"memory":[[1]]/' \
    's/"unit":"[^"]*"/"depth":2/' 's/,"unit":"[^"]*"//'; do
    head -n 1 "$work/text.jsonl" | sed "$change" >"$work/wrong.jsonl"
    fails 3 'line 1: not a result' eval merge "$work/wrong.jsonl"
done
finish
