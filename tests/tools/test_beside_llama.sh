#!/bin/sh
# tools/beside_llama.py, tools/int8_distance.py and tools/entry_distance.py with a llama_cpp that is kvcull itself
# (tests/tools/llama_cpp.py): every cell of their tables, a distance of zero, a known distance, errors. beside_llama.py
# also with an OpenVINO of known speed. PYTHON is an interpreter; distances and OpenVINO need numpy.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${PYTHON:-python3}
"$python" -c '' 2>/dev/null || { echo "skipped: no $python"; exit 77; }
PYTHONDONTWRITEBYTECODE=yes
TMPDIR=$work/temporary
export PYTHONDONTWRITEBYTECODE TMPDIR
mkdir "$TMPDIR" "$work/none" "$work/fake"
cp "$source/tests/tools/llama_cpp.py" "$source/tests/tools/openvino_genai.py" "$source/tests/tools/openvino.py" "$work/fake"
echo 'raise ImportError' | tee "$work/none/llama_cpp.py" >"$work/none/openvino_genai.py"
# tool NAME ARGUMENTS...
tool() {
    name=$1
    shift
    KVCULL_FAKE=$program PYTHONPATH=${modules:-$work/fake} "$python" "$source/tools/$name.py" --kvcull "$program" "$@" \
        >"$work/out" 2>"$work/err" </dev/null
    status=$?
}
# wrong STATUS PATTERN NAME ARGUMENTS...: that status, and one error line that matches.
wrong() {
    want=$1
    pattern=$2
    shift 2
    tool "$@"
    that "exit $want of: $*" [ $status = "$want" ]
    that "one line of error: $*" [ "$(wc -l <"$work/err")" = 1 ]
    has "^$1.py: .*$pattern" "$work/err"
}
ok mkmodel --shape tiny --type q8_0 -o "$work/tiny.gguf"
for name in beside_llama int8_distance entry_distance; do
    wrong 2 'no model is named' $name
    wrong 2 '0: not a number from 1' $name --threads 0 "$work/tiny.gguf"
    wrong 2 'nosuch.*--help lists' $name --nosuch 1
    wrong 2 'a folder.*--types' $name "$demo"
    wrong 3 'nosuch.gguf: no such file' $name "$work/nosuch.gguf"
    modules=$work/none
    wrong 4 'no llama_cpp in .*pip install' $name "$work/tiny.gguf"
    modules=
    tool $name --help
    that "help of $name" [ $status = 0 ]
    has '^ *tools/' "$work/out"
done
wrong 2 'q9: not a type of entries' entry_distance --entries q4_0,q9 "$work/tiny.gguf"
wrong 2 'q4h: f16 or one of' entry_distance --beside q4h "$work/tiny.gguf"
wrong 2 'exact8: float, int8, int16 or fast' beside_llama --math float,exact8 "$work/tiny.gguf"
wrong 2 'vllm: llama or openvino' beside_llama --beside llama,vllm "$work/tiny.gguf"
wrong 2 'entries: invalid choice' beside_llama --entries q9 "$work/tiny.gguf"
modules=$work/none
wrong 4 'no openvino_genai in .*pip install' beside_llama --beside openvino "$work/tiny.gguf"
modules=
wrong 4 'none/kvcull: .*./dev build' beside_llama --kvcull "$work/none/kvcull" "$work/tiny.gguf"

# A row for each of four measurements, with a ratio and quartiles for each arithmetic.
tool beside_llama --rounds 2 --repeat 1 --gen 2 --prompt 8,9 --batch 3 --threads 2 "$work/tiny.gguf"
that 'beside_llama' [ $status = 0 ]
grep '^|' "$work/out" >"$work/table"
that 'two lines of header, four rows' [ "$(wc -l <"$work/table")" = 6 ]
that 'as many cells in all' [ "$(sed 's/[^|]//g' "$work/table" | sort -u)" = '|||||||||' ]
number='[0-9.e+]+'
for what in 'prefill 8' 'prefill 9' decode 'decode, batch 3'; do
    row="^\| tiny.gguf \| 2 \| $what( \| $number){3}( \| $number \($number to $number\)){2} \|\$"
    that "$what" grep -qE "$row" "$work/table"
done
tool beside_llama --rounds 1 --repeat 1 --gen 1 --prompt 8 --batch 1 --threads 1 --shape tiny --types q4_0,f16 --math int8
that 'made models' [ $status = 0 ]
that 'two of them' [ "$(grep -c '^| tiny \(q4_0\|f16\) | 1 | ' "$work/out")" = 4 ]
nothing_left "$TMPDIR"

"$python" -c 'import numpy' 2>/dev/null || { echo 'distances and OpenVINO are not tried: no numpy'; finish; exit; }
# OpenVINO answers 10 prompts and 100 steps a second here, and decodes no batch.
tool beside_llama --beside llama,openvino --rounds 1 --repeat 2 --gen 2 --prompt 8 --batch 2 --threads 1,2 --math int8 \
    --entries q8_0 "$work/tiny.gguf"
that 'three programs' [ $status = 0 ]
for threads in 1 2; do
    row="^\| tiny.gguf \| $threads \|"
    ratio="$number \($number to $number\)"
    that 'prefill' grep -qE "$row prefill 8 \| $number \| 80 \| $number \| $ratio \| $ratio \|\$" "$work/out"
    that 'decode' grep -qE "$row decode \| $number \| 100 \| $number \| $ratio \| $ratio \|\$" "$work/out"
    that 'batch' grep -qE "$row decode, batch 2 \| $number \|  \| $number \| $ratio \|  \|\$" "$work/out"
done
cp "$work/tiny.gguf" "$work/tiny.bin"
wrong 4 'tiny.bin: OpenVINO cannot load it: not a file of this kind' beside_llama --beside openvino "$work/tiny.bin"
i=0
while [ $i -lt 12 ]; do
    echo 'then the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 .'
    i=$((i + 1))
done >"$work/text"
wrong 3 'text: [0-9]* tokens; 99 windows of 40 are more' int8_distance --types q4_0 --windows 99 --tokens 40 --text "$work/text" "$demo"
tool int8_distance --types q4_0 --windows 2 --tokens 40 --text "$work/text" "$demo"
that 'int8_distance' [ $status = 0 ]
# cell ROW NUMBER: a cell of the rows below the header.
cell() { grep '^| demo q4_0 ' "$work/out" | sed -n "$1p" | cut -d '|' -f $(($2 + 1)) | sed 's/^ *//; s/ *$//'; }
that 'nine rows' [ "$(grep -c '^| demo q4_0 |' "$work/out")" = 9 ]
that 'the measure is no distance from itself' [ "$(cell 1 2) $(cell 1 4) $(cell 1 6) $(cell 1 7) $(cell 1 9)" = 'kvcull float 0 0 100.00 % +0.000 %' ]
that 'int8 has one' [ "$(cell 2 2) $(cell 2 3)" = 'kvcull int8 f32' ]
that 'which is not 0' [ "$(cell 2 4)" != 0 ]
that 'who computes in float32 is none' [ "$(cell 3 2) $(cell 3 3) $(cell 3 4) $(cell 3 8)" = "llama.cpp f32 0 $(cell 1 8)" ]
that 'F16 entries show' [ "$(cell 5 2) $(cell 5 3)" = 'llama.cpp f16' ]
that 'in the divergence' [ "$(cell 5 4)" != 0 ]
that 'Q8_0 entries alone' [ "$(cell 6 2) $(cell 6 3)" = 'kvcull float q8_0' ]
that 'are as far as without integers' [ "$(cell 6 4)" = "$(cell 8 4)" ]
that 'and farther with integers' [ "$(cell 7 2) $(cell 7 3) $(awk "BEGIN { print ($(cell 7 4) > $(cell 2 4)) }")" = 'kvcull int8 q8_0 1' ]
that 'the same weights as F32 are none' [ "$(cell 9 4)" = 0 ]
# Without llama.cpp, its rows are missing.
tool int8_distance --alone --types q4_0 --windows 1 --tokens 40 --text "$work/text" "$demo"
that '--alone' [ "$status $(grep -c '^| demo q4_0 |' "$work/out") $(grep -c llama.cpp "$work/out")" = '0 5 1' ]
nothing_left "$TMPDIR"
tool int8_distance --alone --types q4_0 --windows 1 --tokens 40 --text "$work/text" --entries q4_1 "$demo"
that '--entries' [ "$(cell 2 2) $(cell 2 3), $(cell 3 2) $(cell 3 3)" = 'kvcull float q4_1, kvcull int8 q4_1' ]
# The program's own value for one window.
ok convert "$demo" --type q4_0 -o "$work/demo.gguf" -q
ok tokenize -m "$work/demo.gguf" -f "$work/text"
cut -d, -f-40 "$work/out" >"$work/ids"
tool int8_distance --types q4_0 --windows 1 --tokens 40 --text "$work/text" "$demo"
divergence=$(cell 2 4)
kv logits -m "$work/demo.gguf" --tokens "@$work/ids" --math int8 --json -q >"$work/json"
that 'the divergence that kvcull logits prints' "$python" -c 'import json, sys
printed = json.load(open(sys.argv[1]))["distance"]["divergence"]
sys.exit(abs(printed - float(sys.argv[2])) > 0.006 * printed)' "$work/json" "$divergence"
# Types of entries: llama.cpp's rotated Q4_0 entries are kvcull's Q4H, its others kvcull's of the same name.
tool entry_distance --types q4_0 --windows 2 --tokens 40 --text "$work/text" --entries q8_0,q4_0,q4h --entries k=q8_0,v=q4h \
    --beside f32,q4_0 "$demo"
that 'entry_distance' [ $status = 0 ]
that 'eight rows' [ "$(grep -c '^| demo q4_0 |' "$work/out")" = 8 ]
that 'bits of an element' [ "$(for i in 1 2 3 4 5; do cell $i 4; done | tr '\n' ' ')" = '32.00 8.50 4.50 4.50 6.50 ' ]
that 'the measure is no distance from itself' [ "$(cell 1 2) $(cell 1 3) $(cell 1 5) $(cell 1 7)" = 'kvcull f32 0 100.00 %' ]
that 'F32 entries of llama.cpp neither' [ "$(cell 6 2) $(cell 6 3) $(cell 6 5)" = 'llama.cpp f32 0' ]
that 'rotated entries' [ "$(cell 7 2) $(cell 7 3) $(cell 7 5)" = "llama.cpp q4_0 $(cell 4 5)" ]
that 'are the measure of the ratio' [ "$(cell 7 6) $(cell 4 6)" = '1.000 1.000' ]
that 'unrotated entries' [ "$(cell 8 2) $(cell 8 3) $(cell 8 5)" = "llama.cpp, unrotated q4_0 $(cell 3 5)" ]
tool entry_distance --alone --types q4_0 --windows 1 --tokens 40 --text "$work/text" --entries q4_0 "$demo"
that 'entry_distance --alone' [ "$status $(grep -c '^| demo q4_0 |' "$work/out") $(cell 2 6)" = '0 2 1.000' ]
nothing_left "$TMPDIR"
finish
