#!/bin/sh
# Every request for memory or for a thread fails once, alone and together with all later ones. Each command ends with
# the right output, or with one line and status 4; it leaks nothing and leaves no file. KVCULL_FAULTS=N: number of
# failing requests for each command, 0: all (./dev check --faults); otherwise a sample.
. "${top_srcdir:-.}/tests/cli/lib.sh"
[ -z "${KVCULL_VALGRIND-}" ] && ! sanitized || { echo 'elsewhere: ./dev check --plain runs this; valgrind and sanitizers have allocation functions of their own'; exit 77; }
shim=$work/fail_memory.so
${CC:-cc} -shared -fPIC -O2 -D_GNU_SOURCE "$source/tests/cli/fail_memory.c" -o "$shim" -ldl -pthread 2>"$work/err" ||
    { echo 'no shared object can be made here to put before the program:'; head -n 3 "$work/err"; exit 77; }
real=${KVCULL:-$build/.libs/kvcull}
[ -x "$real" ] || real=$build/kvcull
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
OCL_ICD_VENDORS=/nonexistent # errors of drivers without memory are not ours
export LD_LIBRARY_PATH OCL_ICD_VENDORS
into=$work/into
mkdir "$into"

# faults POINTS ARGUMENTS...
faults() {
    points=${KVCULL_FAULTS-$1}
    shift
    "$build/tests/cli/fail_each" "$shim" "$into" "$points" "$real" "$@" >"$work/out" 2>&1
    status=$?
    [ $status != 77 ] || { echo 'nothing can be put before the program here'; exit 77; }
    echo "$(echo "$*" | cut -c 1-60): $(tail -n 1 "$work/out")"
    if [ $status = 0 ]; then good; else bad "without memory: $*"; fi
}

words='then the old sailor found the red kettle near the harbor .'
kv mkmodel --shape tiny --type q8_0 --seed 7 -o "$work/tiny.gguf" -q || exit 1
"$build/tests/cli/make_dump" "$work/dump.safetensors" 2 20 4 2 8 || exit 1
for i in 1 2 3 4 5; do printf '%s ' "$words"; done >"$work/text"

echo '[{"question": "Who?", "answer": "Ann", "context": [["Ann", ["Ann is 9."]], ["Bob", ["Bob is 8."]]]}]' >"$work/hotpotqa.json"
kv eval cwe fwe -m "$work/tiny.gguf" --raw --kv full --kv streaming:budget=64 --length 2400 --samples 1 -q \
    --out "$work/results.jsonl" >"$work/out" 2>&1 || exit 1

faults 50 info methods
faults 30 info methods snapkv
faults 50 info methods --json
faults 75 info "$demo" --prompt 100 --gen 10 --kv snapkv:budget=64 --mem 1G
faults 50 info "$work/tiny.gguf" --prompt 100 --mem 1G --json
faults 100 tokenize -m "$demo" "$words"
faults 75 tokenize -m "$work/tiny.gguf" --json "$words"
faults 50 tokenize -m "$work/tiny.gguf" --pieces "$words"
faults 50 tokenize -m "$work/tiny.gguf" --decode 1,2,3,250
faults 20 tokenize -m "$source/tests/data/tokenizers/gpt2/vocab.gguf" "$words" # a file without weights
faults 20 info "$source/tests/data/tokenizers/gpt2/vocab.gguf"
echo '[{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}]' >"$work/earlier.json"
faults 50 tokenize -m "$work/tiny.gguf" --template qwen3 --messages "$work/earlier.json" \
    --template-vars '{"enable_thinking": false}' "$words"
faults 100 run -m "$demo" -p "$words" -n 10 -q --threads 2
faults 100 run -m "$work/tiny.gguf" -p "$words" -p "$words" -n 10 -q --threads 2 --temp 1 --stop xyz
faults 75 run -m "$work/tiny.gguf" -p "$words" -n 2 -q --save "$into/session"
printf 'root ::= (word " "){3} [.!]\nword ::= "a" word? | "b"\n' >"$work/words.gbnf"
echo '{"properties": {"a": {"type": "integer"}, "b": {"enum": ["x", null]}}, "required": ["a"]}' >"$work/schema.json"
faults 75 run -m "$work/tiny.gguf" -p "$words" -n 10 -q --temp 1 --grammar "$work/words.gbnf"
faults 75 run -m "$work/tiny.gguf" -p "$words" -n 20 -q --temp 1 --json-schema "$work/schema.json"
faults 75 convert "$demo" -o "$into/demo.gguf" --type f16 -q
faults 50 convert "$work/tiny.gguf" -o "$into/tiny.gguf" --type f16 -q
faults 50 convert "$source/tests/data/golden/gpt-oss" -o "$into/gpt-oss.gguf" --type q8_0 -q # experts are split into single tensors
faults 50 logits -m "$source/tests/data/golden/gpt-oss-plain" --tokens 1,2,3,4,5,6 --prompt 3 --out "$into/logits.safetensors"
faults 100 convert "$work/tiny.gguf" -o "$into/tiny/" --type f16 -q
faults 50 mkmodel --shape tiny --type q4_0 -o "$into/tiny.gguf" -q
faults 75 replay --kv 'snapkv:budget=12,window=4,kernel=3' --prompt 15 --in "$work/dump.safetensors" \
    --out "$into/kept.json" --attn "$into/attn.safetensors"
faults 75 replay --kv quest:budget=8,page=2 --prompt 15 --in "$work/dump.safetensors" --out "$into/read.json" -q
faults 30 logits -m "$demo" --tokens 1,2,3,4 --math int16 --threads 2
faults 30 logits -m "$work/tiny.gguf" --tokens 1,2,3,4,5,6 --prompt 3 --out "$into/logits.safetensors"
faults 75 eval needle -m "$demo" --kv 'streaming:budget=32' --length 100 --texts 1 --depths 1 -q --out "$into/needle"
faults 30 eval fwe -m "$work/tiny.gguf" --raw --kv full --length 512 --samples 1 -q --json
faults 30 eval qa_2 -m "$work/tiny.gguf" --template chatml --kv full --length 512 --samples 1 --question seen -q --json \
    --hotpotqa "$work/hotpotqa.json"
faults 50 eval merge "$work/results.jsonl"
faults 30 eval --list
faults 30 eval fidelity -m "$demo" -f "$work/text" --kv 'streaming:budget=16' --gen 4 -q --out "$into/fidelity"

# Runs each method that the program lists, with a budget and with a value for each option that has no default.
kv info methods --json >"$work/methods" || exit 1
value() { "$build/tests/cli/json_value" "$1" <"$work/methods"; }
number=0
while name=$(value methods.$number.name); do
    options=
    option=0
    while key=$(value methods.$number.options.$option.name); do
        case $name:$key:$(value methods.$number.options.$option.default) in
        *:budget:*) options="$options,budget=160" ;;
        *:lag:*) options="$options,lag=32" ;;    # two partitions are below the budget
        *:span:*) options="$options,span=2" ;; # below the model's layers
        duo:file:null) options="$options,file=every-other" ;;
        *:file:null | dms:file:*) options="$options,file=drawn" ;;
        *:stats:null) options="$options,stats=drawn" ;;
        *:null) bad "this test has no value for the option $key of $name" ;;
        esac
        option=$((option + 1))
    done
    faults 15 run -m "$work/tiny.gguf" --kv "$name${options:+:${options#,}}" -n 6 -q --threads 2 \
        -p "$(cat "$work/text")"
    number=$((number + 1))
done
that 'the methods were met' [ $number -gt 20 ]
finish
