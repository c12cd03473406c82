#!/bin/sh
# kvcull eval: scores of full and small budgets on short texts, the files written, and refused options.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

above() { awk "BEGIN { exit !(($1) > ($2)) }"; }
json_of() { "$build/tests/cli/json_value" "$2" <"$1"; }
# rows FILE: the number of lines below a CSV file's header with as many fields as the header; commas within quotes do
# not count.
rows() { sed 's/"[^"]*"/x/g' "$1" | awk -F, 'NR == 1 { fields = NF } NR > 1 && NF == fields' | wc -l; }
files() { (cd "$1" && echo *); }

# ---- fidelity
for i in 1 2 3 4 5 6; do
    echo 'the magic number for lantern 48 21 . then the old sailor found the red kettle near the harbor .'
done >"$work/text"
echo 'question : the magic number for lantern' >>"$work/text"
fidelity() { ok eval fidelity -m "$demo" -f "$work/text" --gen 6 -q "$@"; }
fidelity --kv full --kv 'streaming:budget=12,sinks=2' --kv 'quest:budget=8,page=4' --json --out "$work/fidelity"
that 'two policies and one that selects' [ "$(json results)" = '[3]' ]
for equal in recall=1 recall_worst_head=1 output_error=0 kl=0 same_top=1; do
    that "full: $equal" [ "$(json results.0.${equal%=*})" = ${equal#*=} ]
done
that 'full holds the whole prompt' [ "$(json results.0.entries)" = "$(json prompt)" ]
that 'six steps and the first token' [ "$(json answer)" = 7 ]
for policy in 1 2; do
    that "policy $policy: not all that matters is there" above 1 "$(json results.$policy.recall)"
    that "policy $policy: but some is" above "$(json results.$policy.recall)" 0
    that "policy $policy: other outputs" above "$(json results.$policy.output_error)" 0
    that "policy $policy: other logits" above "$(json results.$policy.kl)" 0
    that "policy $policy: reads less" \
        [ "$(json results.$policy.read_bytes_per_token)" -lt "$(json results.0.read_bytes_per_token)" ]
done
that 'the budget' [ "$(json results.1.entries)" = 12 ]
layers=$(json results.1.layers | tr -d '[]')
that 'a recall of every layer' [ "$layers" -ge 2 ]
that 'two files' [ "$(files "$work/fidelity")" = 'fidelity.csv fidelity.json' ]
that 'fidelity.json is what was printed' cmp -s "$work/out" "$work/fidelity/fidelity.json"
that 'a row for each policy and layer' [ "$(rows "$work/fidelity/fidelity.csv")" = $((3 * layers)) ]
mean=$(sed -n 's/^"streaming[^"]*",//p' "$work/fidelity/fidelity.csv" | awk -F, '{ sum += $2 } END { print sum / NR }')
that 'the mean of the layers' above 0.00001 "($mean - $(json results.1.recall)) ^ 2 * 1e5"
has '^"full",0,1\.0*,1\.0*,0,0,1\.0*,' "$work/fidelity/fidelity.csv"
has '^"streaming:budget=12,sinks=2",0,0\.' "$work/fidelity/fidelity.csv"
fidelity --kv full --kv 'window:budget=12' --prompt 40
has '^40 prompt tokens, an answer of 7 tokens'
has '^full  *1\.000  *1\.000  *0\.0000  *0\.0000  *1\.000  *40 '
has '^window:budget=12$' # a row of its own, because the values would not fit beside it
has '^  *0\.'
narrow

# the same values from two sessions run together
for policy in 'streaming:budget=12,sinks=2' 'snapkv:budget=40+morphkv:budget=36' 'quest:budget=8,page=4' \
    'take:budget=20,chunk=40' 'keyformer:budget=20'; do
    fidelity --kv "$policy" --json
    "$build/tests/cli/fidelity_values" "$demo" "$work/text" 6 "$policy" >"$work/values"
    for name in kl same_top output_error prompt_peak_bytes held_bytes end_bytes read_bytes_per_token; do
        value=$(json_of "$work/values" $name)
        that "$policy: $name" awk "BEGIN { d = ($(json results.0.$name)) - ($value); x = $value
                                           exit !(d * d <= 1e-12 * x * x) }"
    done
done
# topk reads the entries that one query attends to most; in the lowest layer this is exact, because no earlier layer
# left anything out
ok eval fidelity -m "$demo" -f "$work/text" --gen 1 --kv topk:budget=20 --kv window:budget=20 --json -q
that 'the gold entries of the lowest layer' [ "$(json results.0.layers.0.recall_worst_head)" = 1 ]
that 'which are not the newest' above 1 "$(json results.1.layers.0.recall)"

fails 2 'no policy' eval fidelity -m "$demo" -f "$work/text"
fails 2 'no text' eval fidelity -m "$demo" --kv full
fails 2 'nosuch' eval fidelity -m "$demo" -f "$work/text" --kv nosuch
fails 2 'gen' eval fidelity -m "$demo" -f "$work/text" --kv full --gen 0
fails 2 'prompt' eval fidelity -m "$demo" -f "$work/text" --kv full --prompt -1
fails 2 'did you mean fidelity' eval fidelty -m "$demo"

# ---- needle
needle() { ok eval needle -m "$demo" --texts 1 --length 300 --depths 2 -q "$@"; }
for way in one both answer turns; do
    needle --kv full --kv 'streaming:budget=32' --kv 'snapkv:budget=64' --ask $way --json --out "$work/$way"
    that "$way: how it was asked" [ "$(json ask)" = $way ]
    that "$way: three policies" [ "$(json results)" = '[3]' ]
    for policy in 0 1 2; do
        that "$way: two facts" [ "$(json results.$policy.depths)" = '[2]' ]
        that "$way: each asked for once" \
            [ "$(json results.$policy.depths.0.asked) $(json results.$policy.depths.1.asked)" = '1 1' ]
        right=$(($(json results.$policy.depths.0.right) + $(json results.$policy.depths.1.right)))
        that "$way: the share that is right" \
            [ "$(json results.$policy.accuracy)" = "$(awk "BEGIN { print $right / 2 }")" ]
    done
    that "$way: full reads more than streaming" \
        above "$(json results.0.read_bytes_per_token)" "$(json results.1.read_bytes_per_token)"
    that "$way: the budget" [ "$(json results.1.entries | cut -d. -f1)" = 32 ]
    that "$way: full holds the whole text" above "$(json results.0.entries)" 290
    that "$way: two files" [ "$(files "$work/$way")" = 'needle.csv needle.json' ]
    that "$way: needle.json is what was printed" cmp -s "$work/out" "$work/$way/needle.json"
    that "$way: a row for each policy and depth" [ "$(rows "$work/$way/needle.csv")" = 6 ]
    has '^"full",300,0\.25,1,[01],' "$work/$way/needle.csv"
    has '^"streaming:budget=32",300,0\.75,1,[01],' "$work/$way/needle.csv"
done
reads() { json_of "$work/$1/needle.json" "results.$2.read_bytes_per_token"; }
that 'later questions come to a longer text' above "$(reads turns 0)" "$(reads one 0)"
that 'a prompt method chooses again in a turn, not within an answer' above "$(reads answer 2)" "$(reads turns 2)"
number() { json_of "$work/both/needle.json" "results.$1"; }
for policy in 0 1 2; do
    that 'asked both ways, what the prompt has is answered as before' \
        [ "$(number $policy.accuracy)" = "$(json_of "$work/one/needle.json" "results.$policy.accuracy")" ]
    that 'each fact is asked for unseen, too' \
        [ "$(number $policy.accuracy_unseen)" = "$(awk "BEGIN { print ($(number $policy.depths.0.right_unseen) + \
            $(number $policy.depths.1.right_unseen)) / 2 }")" ]
done
that 'full answers alike' [ "$(number 0.accuracy)" = "$(number 0.accuracy_unseen)" ]
that 'snapkv keeps what it sees asked for' above "$(number 2.accuracy)" "$(number 2.accuracy_unseen)"
has '^"full",300,0\.25,1,1,.*,1$' "$work/both/needle.csv"
has '^"full",300,0\.25,1,1,.*,$' "$work/one/needle.csv"
that 'full finds what the bundled model was trained to find' \
    [ "$(json_of "$work/one/needle.json" results.0.accuracy)" = 1 ]
that 'streaming has lost the first fact' \
    [ "$(json_of "$work/one/needle.json" results.1.depths.0.right)" = 0 ]
needle --kv full --length 150,300 --show 1
has 'Expected : [0-9]* [0-9]* \.'
has '^Texts of 150 tokens'
has '^Texts of 300 tokens'

fails 2 'no policy' eval needle -m "$demo"
fails 2 'ask' eval needle -m "$demo" --kv full --ask nosuch
fails 2 'depths' eval needle -m "$demo" --kv full --depths 21
fails 2 'texts' eval needle -m "$demo" --kv full --texts 0
fails 2 'length' eval needle -m "$demo" --kv full --length 10
fails 2 'budget' eval needle -m "$demo" --kv 'streaming:budget=0'
# words KEYS NUMBERS: writes word lists with these keys and numbers.
words() {
    printf '{"keys": [%s], "numbers": [%s]' "$1" "$2" >"$work/words"
    for name in nouns adjectives verbs people places prepositions; do
        printf ', "%s": ["red"]' $name >>"$work/words"
    done
    echo '}' >>"$work/words"
}
words '"lamp", 5' '"4", "7"'
fails 3 "words: entry 1 of 'keys' is not a word" eval needle -m "$demo" --kv full --words "$work/words"
words '"lamp"' '"4"'
fails 3 "words: 'numbers' has 1 words; at least 2 are needed" eval needle -m "$demo" --kv full --words "$work/words"
words '"lamp", "lamp"' '"4", "7"'
fails 3 "'keys': too few different words for 2 facts among 2 words" \
    eval needle -m "$demo" --kv full --words "$work/words" --texts 1 --length 300 --depths 2
fails 2 '3 facts in a text, but the word lists have only 2 keys' \
    eval needle -m "$demo" --kv full --words "$work/words" --texts 1 --length 300 --depths 3
echo '{"keys":' >"$work/words"
fails 3 'words: line 2: .*; the file must have word lists' eval needle -m "$demo" --kv full --words "$work/words"
finish
