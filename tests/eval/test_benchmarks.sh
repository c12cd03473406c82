#!/bin/sh
# kvcull eval with benchmark files: small files in each format, made here; errors in them; a run of every task.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

kv mkmodel --shape thin --type f32 --seed 3 -o "$work/thin.gguf" -q || exit 1
model=$work/thin.gguf
made=$work/made

# ---- a folder for each benchmark. Texts are so long that they must be cut.
mkdir -p "$made/bench/data" "$made/bench/config" "$made/two/prompts" "$made/infinite" "$made/helmet/kilt" \
    "$made/helmet/json_kv" "$made/helmet/msmarco" "$made/helmet/ruler/niah_multikey_2" \
    "$made/helmet/ruler/niah_multikey_3" "$made/helmet/ruler/niah_multivalue" "$made/writer" "$made/pieces" \
    "$made/proc/path_traversal" "$made/proc/html_to_tsv/webpage" "$made/proc/tom_tracking" "$made/proc/countdown"
words=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "The boat number %d left at noon. ", i }')
names='narrativeqa qasper multifieldqa_en multifieldqa_zh hotpotqa 2wikimqa musique dureader gov_report qmsum multi_news
vcsum trec triviaqa samsum lsht passage_count passage_retrieval_en passage_retrieval_zh lcc repobench-p'
for name in $names; do
    answers='["Kettle Bay", "the bay"]'
    classes=null
    case $name in
    passage_retrieval_en) answers='["Paragraph 3"]' ;;
    passage_retrieval_zh) answers='["段落3"]' ;;
    passage_count) answers='["3"]' ;;
    trec | lsht) answers='["Food"]' classes='["Food", "Drink"]' ;;
    esac
    for i in 1 2; do
        printf '{"input": "Where {is} it, %d?", "context": "%s", "answers": %s, "length": 5, "dataset": "x", "language": "en", "all_classes": %s, "_id": "a%d"}\n' \
            $i "$words" "$answers" "$classes" $i
    done >"$made/bench/data/$name.jsonl"
    cp "$made/bench/data/$name.jsonl" "$made/bench/data/${name}_e.jsonl"
done
{
    echo '{'
    for name in $names; do printf '"%s": "Read {{this}}.\\n{context}\\nNow answer: {input}\\nAnswer:",\n' "$name"; done
    echo '"other": ""}'
} >"$made/bench/config/dataset2prompt.json"

printf '<text>\n$DOC$\n</text>\nQuestion: $Q$ ($5)\nA: $C_A$ B: $C_B$ C: $C_C$ D: $C_D$' >"$made/two/prompts/0shot.txt"
row() {
    printf '{"_id": "%s", "domain": "d", "question": " Where? ", "choice_A": "here", "choice_B": "there [x] {", "choice_C": "no \\"where\\"", "choice_D": "$Q$", "answer": "B", "context": "%s"}' \
        "$1" "$words"
}
{ printf '[\n'; row a; printf ',\n'; row b; printf ']\n'; } >"$made/two/data.json"

infinite() { # NAME ANSWER INPUT OPTIONS
    printf '{"id": 0, "context": "%s", "input": "%s", "answer": %s, "options": %s}\n' "$words" "$3" "$2" "${4:-[]}" \
        >"$made/infinite/$1.jsonl"
}
infinite passkey '["71432"]' 'What is the key?'
infinite number_string '["7143271432"]' 'What is it?'
infinite kv_retrieval '"5e6b"' 'Key: \"a\"'
infinite longbook_sum_eng '["A boat left."]' ''
infinite longbook_choice_eng '["noon"]' 'When?' '["dawn", "noon", "dusk", "never"]'
infinite longbook_qa_eng '["at noon", "noon"]' 'When?'
infinite longbook_qa_chn '["中午"]' '什么时候?'
infinite longdialogue_qa_eng '["ANN", "ANN LEE"]' ''
infinite math_find 88 'You should answer. The LARGEST number of the list is?'
infinite math_calc '[[1, 2, 3]]' ''
infinite code_run '[4]' 'Compute func_12(-3) now.'
infinite code_debug '["fix_all", "B"]' '' '["a", "fix_all", "b", "c"]'

ctxs='[{"title": "Boats", "text": "A boat is red.", "id": "1", "label": 0}, {"title": "Bays", "text": "A bay is wide.", "id": "2", "label": 2}]'
for set in nq-dev-multikilt_1000_k50_dep6 nq-train-multikilt_1000_k3_dep6 triviaqa-dev-multikilt_1000_k50_dep6 \
    triviaqa-train-multikilt_1000_k3_dep6 hotpotqa-dev-multikilt_1000_k50_dep3 hotpotqa-train-multikilt_1000_k3_dep3 \
    popqa_test_1000_k50_dep6 popqa_test_1000_k3_dep6; do
    for i in 1 2 3; do printf '{"question": "What is %d?", "answers": ["red", "wide"], "ctxs": %s}\n' $i "$ctxs"; done \
        >"$made/helmet/kilt/$set.jsonl"
done
for k in 50 10; do
    for i in 1 2 3; do printf '{"qid": "q%d", "query": "wide", "ctxs": %s}\n' $i "$ctxs"; done \
        >"$made/helmet/msmarco/test_reranking_data_k${k}_dep3.jsonl"
done
printf '{"context": "{\\"a\\": \\"1\\"}", "question": "a", "answer": "1", "demos": [["b", "2"], ["c", "3"]], "num_kvs": 1}\n' \
    >"$made/helmet/json_kv/test_k105_dep6.jsonl"
for set in niah_multikey_2 niah_multikey_3 niah_multivalue; do
    printf '{"context": "%s", "query": "fox", "type_needle_v": "numbers", "answer": ["12", "13"]}\n' "$words" \
        >"$made/helmet/ruler/$set/validation_8192.jsonl"
done

for file in longbench_write longbench_write_en longwrite_ruler; do
    printf '{"prompt": "Write about boats.", "type": "x", "length": 100}\n' >"$made/writer/$file.jsonl"
done
for file in Dataset_short Dataset_long; do
    printf '[\n  {"prompt": "Write a diary. #*# Week 1:", "checks_once": {}, "type": "Week", "prefix": "#*# Week 1:", "number": 3}\n]' \
        >"$made/pieces/$file.json"
done
for set in path_traversal html_to_tsv tom_tracking countdown; do
    case $set in
    path_traversal)
        prompt='  Cities:\n  {city_context}\n\n  From {src_city} to {dst_city}?'
        record='{"context_nl": "Ada has a bus to Bel.", "question_repr": ["Ada", "Bel"], "answer_nl": "From Ada, take a bus to Bel."}'
        ;;
    html_to_tsv)
        prompt='  ```html\n  {html_str}\n  ```\n  {task_topic} {task_description}{filtering_instruction} {tsv_header} {{rows}}'
        record='{"html_path": "webpage/a.html", "task_topic": "a", "task_description": "b", "filtering_instruction": "", "tsv_header": "a\tb", "gt": "a\tb\n1\t2"}'
        ;;
    tom_tracking)
        prompt='  {story}\n  {question}'
        record='{"story_components": "", "story": "Ann goes.", "question": "Where?", "solution": "- Step 0: here"}'
        ;;
    countdown)
        prompt='  {demonstration}\n  Numbers: {nums}\n  Target: {target}'
        record='{"nums": [21, 16, 17, 26], "target": 46, "demonstration": "<Search Procedure>\nInitial"}'
        ;;
    esac
    printf "USER_PROMPT: |-\n$prompt\n" >"$made/proc/$set/prompts.yaml"
    for size in 0.5k 2k 8k; do printf '[%s, %s]' "$record" "$record" >"$made/proc/$set/${set}_$size.json"; done
done
printf '<p>\n  <b>one</b>\n' >"$made/proc/html_to_tsv/webpage/a.html"

folders="--longbench $made/bench --longbench2 $made/two --infinitebench $made/infinite --helmet $made/helmet
--longwriter $made/writer --longgenbench $made/pieces --longproc $made/proc"

# ---- the list
ok eval --list
has '^longbench/hotpotqa .*--longbench'
narrow
# shellcheck disable=SC2086
ok eval --list $folders
has '^longbench/hotpotqa .*--longbench: there'
that 'everything is there' [ "$(grep -c ': missing' "$work/out")" = 0 ]
mv "$made/bench/data/lcc.jsonl" "$work/lcc"
ok eval --list --longbench "$made/bench"
has '^longbench/lcc .*--longbench: missing'
mv "$work/lcc" "$made/bench/data/lcc.jsonl"

# ---- every task runs, with both ways of asking
# asked TASKS LENGTH OPTIONS...: runs a sample of each task; its results are in $work/asked
asked() {
    tasks=$1 length=$2
    shift 2
    rm -f "$work/asked"
    # shellcheck disable=SC2086
    ok eval $tasks -m "$model" --raw --kv 'streaming:budget=64' --samples 1 --length "$length" -q --out "$work/asked" "$@"
}
results() { wc -l <"$work/asked" | tr -d ' '; }
asked longbench 900 --longbench "$made/bench"
that '21 sets, both ways' [ "$(results)" = 42 ]
has '"task":"longbench/hotpotqa","length":900' "$work/asked"
that 'with their answers none is longer than asked for' awk -F '"prompt_tokens":' '$2 + 32 > 900 { exit 1 }' "$work/asked"
# three long summaries of 512 tokens, read by byte: the text is cut
that 'cut to what is left' [ "$(grep -c '"task":"longbench/gov_report".*"prompt_tokens":38[0-8],' "$work/asked")" = 2 ]
asked longbench_e 900 --longbench "$made/bench"
that '13 sets' [ "$(results)" = 26 ]
asked longbench2 900 --longbench2 "$made/two"
that 'one' [ "$(results)" = 2 ]
asked infinitebench 2000 --infinitebench "$made/infinite"
that '12 sets' [ "$(results)" = 24 ]
asked helmet 1200 --helmet "$made/helmet"
that '9 sets' [ "$(results)" = 18 ]
asked longwriter 400 --longwriter "$made/writer"
that '3 sets' [ "$(results)" = 6 ]
asked longgenbench 400 --longgenbench "$made/pieces"
that '2 sets' [ "$(results)" = 4 ]
asked 'longproc/path_traversal_0.5k longproc/html_to_tsv_0.5k longproc/tom_tracking_0.5k longproc/countdown_0.5k' 2000 \
    --longproc "$made/proc" --question seen
that '4 sets' [ "$(results)" = 4 ]

# ---- what the model gets
# show TASK OPTIONS...: text, question and answers of the first sample are in $work/err
show() {
    task=$1
    shift
    kv eval "$task" -m "$model" --raw --kv 'streaming:budget=64' --samples 1 --length 6000 --question seen --show 1 -q "$@" \
        >"$work/out" 2>"$work/err" || bad "$task"
}
show longbench/passage_count --longbench "$made/bench"
has '^Read {this}\.$' "$work/err"
has '^Now answer: Where {is} it, 1?$' "$work/err"
show longbench2 --longbench2 "$made/two"
has '^Question: Where? (\$5)$' "$work/err"
has 'D: \$Q\$$' "$work/err"
show infinitebench/code_run --infinitebench "$made/infinite"
has 'called func_12\.' "$work/err"
has 'what func_12(-3) returns' "$work/err"
show infinitebench/math_find --infinitebench "$made/infinite"
has 'is the largest number?' "$work/err"
show infinitebench/longbook_choice_eng --infinitebench "$made/infinite"
has '^B$' "$work/err"
show helmet/msmarco --helmet "$made/helmet"
has '^Ranking: 2 > 1$' "$work/err"
has '^2 > 1$' "$work/err"
show longgenbench/short --longgenbench "$made/pieces"
has '^#\*# Week 1:$' "$work/err"
show longproc/html_to_tsv_0.5k --longproc "$made/proc"
has '^  <b>one</b>$' "$work/err"
show longproc/countdown_0.5k --longproc "$made/proc"
has '^# Search Procedure$' "$work/err"
has '^Numbers: \[21, 16, 17, 26\]$' "$work/err"

# ---- errors in a file
one=$made/bench/data/hotpotqa.jsonl
cp "$one" "$work/whole"
# wrong PATTERN: the second record of the changed file is reported
wrong() { fails 3 "$1" eval longbench/hotpotqa -m "$model" --raw --kv full --longbench "$made/bench"; }
second() { head -n 1 "$work/whole" >"$one"; sed -n 2p "$work/whole" | sed "$1" >>"$one"; }
second 's/"answers"/"answer"/'
wrong 'hotpotqa.jsonl: line 2: "answers" is missing; it must be a list of texts'
second 's/"answers": \[[^]]*\]/"answers": 5/'
wrong 'line 2: "answers" is a number; it must be a list'
second 's/"answers": \[[^]]*\]/"answers": ["a", 5]/'
wrong 'line 2: "answers" is a list'
second 's/"answers": \[[^]]*\]/"answers": []/'
wrong 'line 2: "answers" is a list'
second 's/"context": "[^"]*"/"context": ["x"]/'
wrong 'line 2: "context" is a list'
second 's/"context": "[^"]*"/"context": ""/'
wrong 'line 2: "context" is an empty text'
second 's/"input": "[^"]*"/"input": null/'
wrong 'line 2: "input" is null'
second 's/}$//'
wrong 'line 2: not a JSON object'
second 's/"_id"/"input"/'
wrong 'line 2: not a JSON object: duplicate'
{ cat "$work/whole"; printf '{"input": "caf\351"}\n'; } >"$one"
wrong 'line 3: not UTF-8'
{ cat "$work/whole"; printf '{"input": "caf\303'; } >"$one"
wrong 'line 3: not UTF-8'
# In the last block of a file, which is shorter than the blocks before it.
{ yes "$(cat "$work/whole")" | head -c 70000; printf '\351'; } >"$one"
wrong 'not UTF-8'
{ cat "$work/whole"; printf 'x\n'; } >"$one"
wrong 'line 3: not an object'
: >"$one"
wrong 'hotpotqa.jsonl: no records'
printf '[{"a": 1}' >"$one"
wrong 'ends inside its array'
printf '[{"a": 1}] x' >"$one"
wrong 'text after the array'
printf '\377\376{\000' >"$one"
wrong 'not UTF-8'
rm "$one"
wrong 'does not contain data/hotpotqa.jsonl or '
mkdir "$one"
wrong 'cannot be read'
rmdir "$one"
cp "$work/whole" "$one"
config=$made/bench/config/dataset2prompt.json
cp "$config" "$work/config"
sed 's/"hotpotqa": "[^"]*"/"hotpotqa": 5/' "$work/config" >"$config"
wrong 'no text "hotpotqa"'
sed 's/{input}/{inputs}/' "$work/config" >"$config"
wrong '{inputs}.* not a field'
sed 's/{context}/text/' "$work/config" >"$config"
wrong 'must contain context'
echo '{' >"$config"
wrong 'dataset2prompt.json: line .*: not JSON'
printf '{"hotpotqa": "caf\351"}' >"$config"
wrong 'not UTF-8'
rm "$config"
wrong 'does not contain config/dataset2prompt.json'
cp "$work/config" "$config"
fails 3 'none: cannot be opened' eval longbench/hotpotqa -m "$model" --raw --kv full --longbench "$work/none"
# spoil FILE SED PATTERN TASK OPTION FOLDER
spoil() {
    cp "$1" "$work/whole"
    sed "$2" "$work/whole" >"$1"
    fails 3 "$3" eval "$4" -m "$model" --raw --kv full --samples 1 "$5" "$6"
    cp "$work/whole" "$1"
}
spoil "$made/two/data.json" 's/"answer": "B"/"answer": "E"/' '"answer" .* a letter from A to D' longbench2 --longbench2 "$made/two"
spoil "$made/bench/data/trec.jsonl" 's/"all_classes": [^,]*, "Drink"\]/"all_classes": null/' '"all_classes" is null' \
    longbench/trec --longbench "$made/bench"
spoil "$made/bench/data/passage_retrieval_en.jsonl" 's/Paragraph 3/third/' "texts with a paragraph's number" longbench/passage_retrieval_en \
    --longbench "$made/bench"
spoil "$made/infinite/longbook_choice_eng.jsonl" 's/"never"/5/' '"options" is a list' infinitebench/longbook_choice_eng \
    --infinitebench "$made/infinite"
spoil "$made/infinite/longbook_choice_eng.jsonl" 's/"answer": \["noon"\]/"answer": ["night"]/' 'one of the options' \
    infinitebench/longbook_choice_eng --infinitebench "$made/infinite"
spoil "$made/infinite/code_run.jsonl" 's/func_12(-3)/f(3)/' 'a call like func_12(3)' infinitebench/code_run \
    --infinitebench "$made/infinite"
spoil "$made/infinite/math_find.jsonl" 's/of the list/in the list/' 'The ... of' infinitebench/math_find \
    --infinitebench "$made/infinite"
spoil "$made/infinite/passkey.jsonl" 's/"answer": \["71432"\]/"answer": {}/' '"answer" is an object' infinitebench/passkey \
    --infinitebench "$made/infinite"
spoil "$made/helmet/msmarco/test_reranking_data_k50_dep3.jsonl" 's/"label": 2/"label": "high"/' 'a whole number "label"' \
    helmet/msmarco --helmet "$made/helmet"
spoil "$made/helmet/kilt/nq-train-multikilt_1000_k3_dep6.jsonl" 's/"ctxs": .*/"ctxs": 1}/' 'k3_dep6.jsonl: line .: "ctxs" is a number' \
    helmet/kilt_nq --helmet "$made/helmet"
spoil "$made/helmet/json_kv/test_k105_dep6.jsonl" 's/\["c", "3"\]/"c"/' 'pairs of a key' helmet/json_kv --helmet "$made/helmet"
spoil "$made/writer/longwrite_ruler.jsonl" 's/100/0/' '"length" is a number; it must be a whole number from 1' longwriter/ruler \
    --longwriter "$made/writer"
spoil "$made/pieces/Dataset_short.json" 's/"number": 3/"number": "3"/' '"number" is a text' longgenbench/short \
    --longgenbench "$made/pieces"
spoil "$made/proc/html_to_tsv/html_to_tsv_0.5k.json" 's,webpage/a,../../a,' '"html_path" .* in the folder' \
    longproc/html_to_tsv_0.5k --longproc "$made/proc"
spoil "$made/proc/html_to_tsv/html_to_tsv_0.5k.json" 's,webpage/a,webpage/b,' '"html_path" .* an existing UTF-8 file' \
    longproc/html_to_tsv_0.5k --longproc "$made/proc"
spoil "$made/proc/countdown/countdown_0.5k.json" 's/, 26\]/]/' '"nums" is a list' longproc/countdown_0.5k --longproc "$made/proc"
spoil "$made/proc/tom_tracking/prompts.yaml" 's/USER/MY/' 'no "USER_PROMPT' longproc/tom_tracking_0.5k --longproc "$made/proc"

# ---- the bundled model: a scored answer
asked 'longbench/hotpotqa longbench/trec' 900 --longbench "$made/bench"
ok eval longbench/hotpotqa -m "$demo" --raw --kv full --kv 'snapkv:budget=64' --samples 2 --length 700 --longbench "$made/bench" -q
has '^longbench/hotpotqa of 700 tokens$'
narrow
finish
