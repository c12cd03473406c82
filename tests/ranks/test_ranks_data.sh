#!/bin/sh
# --ranks data: samples and windows divided among processes, with the files of --shard and the tables of one process;
# info --ranks; and the bytes that ranks of --ranks tensor report as sent.
. "${top_srcdir:-.}/tests/ranks/lib.sh"

# ranks N ARGUMENTS...: runs that many processes; the exit status is in $status.
ranks() {
    count=$1
    shift
    timeout 300 $start -n "$count" "$each" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
errors() { grep '^kvcull' "$work/err"; }
# Times differ from run to run.
timeless() { sed -E 's/"(seconds|prompt_us|answer_us|first_seconds|token_seconds|[a-z_]*seconds)": *[-0-9.e]+//g' "$@"; }
columns() { sed -E 's/ +[0-9.]+ (us|ms|s)( |$)/ /g; s/ +/ /g' "$@"; }

# ---- perplexity: bit-identical to one process
for i in 1 2 3 4 5 6 7 8; do
    echo 'the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
done >"$work/text"
perplexity="perplexity -m $demo -f $work/text --ctx 24 --kv full --kv streaming:budget=12,sinks=2 --threads 1 --json"
ok $perplexity
timeless "$work/out" >"$work/one"
that 'several windows' [ "$(json windows)" -gt 4 ]
for n in 1 2 3 9; do # 9: more ranks than windows
    ranks $n $perplexity --ranks data
    that "perplexity on $n ranks" [ $status = 0 ]
    timeless "$work/out" >"$work/several"
    that "perplexity on $n ranks: the same" cmp -s "$work/one" "$work/several"
done

# ---- eval: the files of --shard, the tables of one process
eval="eval needle_demo -m $demo --kv full --kv streaming:budget=64,sinks=2 --length 200,256 --samples 3 --raw --threads 1"
ok $eval --out "$work/one.jsonl"
columns "$work/out" >"$work/one"
ranks 2 $eval --out "$work/two.jsonl" --ranks data
that 'eval on two ranks' [ $status = 0 ]
columns "$work/out" >"$work/several"
that 'eval: one table' [ "$(grep -c 'of each turn' "$work/out")" = 2 ]
that 'eval: the same' cmp -s "$work/one" "$work/several"
for i in 1 2; do
    ok $eval --out "$work/shard.$i" --shard $i/2
    timeless "$work/shard.$i" >"$work/shard"
    timeless "$work/two.jsonl.${i}of2" >"$work/part"
    that "the file of --shard $i/2" cmp -s "$work/shard" "$work/part"
done
ok eval merge "$work/two.jsonl.1of2" "$work/two.jsonl.2of2"
cp "$work/two.jsonl.2of2" "$work/before"
head -n 2 "$work/before" >"$work/two.jsonl.2of2"
ranks 2 $eval --out "$work/two.jsonl" --ranks data --resume
that 'eval --resume' [ $status = 0 ]
columns "$work/out" | grep -v '^Prompts' >"$work/several"
that 'eval --resume: the same' [ "$(grep -v '^Prompts' "$work/one")" = "$(cat "$work/several")" ]

# ---- which rank holds what, without starting other processes
ok info "$demo" --ranks tensor=1 --json
that 'one rank holds all weights' [ "$(json ranks.0.weight_bytes)" = "$(json weight_bytes)" ]
that 'one rank holds the whole cache' [ "$(json ranks.0.cache_bytes)" = "$(json policies.0.cache_bytes)" ]
ok info "$demo" --ranks tensor=2 --json
whole=$(json weight_bytes)
for r in 0 1; do
    that "rank $r: fewer weights" [ "$(json ranks.$r.weight_bytes)" -lt "$whole" ]
    that "rank $r: half of the cache" [ $((2 * $(json ranks.$r.cache_bytes))) = "$(json policies.0.cache_bytes)" ]
done
that 'together all of them' [ $(($(json ranks.0.weight_bytes) + $(json ranks.1.weight_bytes))) -ge "$whole" ]
# memory that is enough for two ranks but not for one
least=$(($(json ranks.0.total_bytes) > $(json ranks.1.total_bytes) ? $(json ranks.0.total_bytes) : $(json ranks.1.total_bytes)))
ok info "$demo" --ranks tensor=2 --mem $least
has '^full  *1  *0-3  *4  *1-1 '
kv info "$demo" --mem $least >"$work/out" 2>"$work/err" </dev/null
that 'not one' [ $? = 1 ]
kv info "$demo" --ranks tensor=2 --mem $((least - 1)) >"$work/out" 2>"$work/err" </dev/null
that 'a byte less' [ $? = 1 ]

# ---- sent bytes are counted: the same for the same work
sends() { ranks 2 bench -m "$demo" --prompt 64 --gen 8 --repeat 1 --threads 1 --json; }
sends
decode=$(json decode.0.sent_bytes_per_token)
that 'bytes of a step' awk "BEGIN { exit !($decode > 1000) }"
messages=$(json decode.0.sent_messages_per_token)
sends
that 'the same bytes' [ "$(json decode.0.sent_bytes_per_token)" = "$decode" ]
that 'the same messages' [ "$(json decode.0.sent_messages_per_token)" = "$messages" ]
that 'bytes of a prompt' [ "$(json prefill.0.sent_bytes_per_token)" != null ]
ranks 2 run -m "$demo" -p 'the magic number' -n 4 --threads 1
that 'run says what was sent' grep -q '^ranks  *2 sent .* a token' "$work/err"
ok run -m "$demo" -p 'the magic number' -n 4 --threads 1
that 'one process sends nothing' test "$(grep -c '^ranks' "$work/err")" = 0

# ---- refused options: one line, exit status 2
refused() {
    ranks 2 "$@" --ranks data
    that "exit $status of $*" [ $status = 2 ]
    that "one line of $*" [ "$(errors | wc -l)" = 1 ]
}
refused run -m "$demo" -p x
errors | grep -q 'ranks data' && good || bad 'the error names --ranks data'
refused eval needle -m "$demo" --kv full
refused eval needle_demo -m "$demo"
refused $eval --shard 1/2
refused $eval --out "$work/two.jsonl"
refused perplexity -m "$demo" -f - --kv full
# a file that only one rank can write
mkdir "$work/torn.2of2"
ranks 2 $eval --out "$work/torn" --ranks data
that 'one rank fails: no table' [ ! -s "$work/out" ]
that 'one rank fails: exit' [ $status != 0 ]
errors | grep -q 'rank 1: --out' && good || bad 'rank 1 says why'
errors | grep -q 'rank 1 ended with exit status 4' && good || bad 'rank 0 says who'
finish
