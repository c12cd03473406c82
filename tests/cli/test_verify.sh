#!/bin/sh
# verify, bench and eval: small runs of each, and their output.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
OCL_ICD_VENDORS=$work/none # test_opencl_runs.sh tests OpenCL
export OCL_ICD_VENDORS

# The CPU backend has the stored hashes for all operations, and each of its instruction sets for all methods. In full,
# each has them for all operations. tests/core/test_verify compares all with ref, with fewer cases.
stored_hashes() {
    ok verify --backend "$1" --only "$2" --against stored --json -q
    that "$1: equal" [ "$(json equal)" = true ]
    that "$1: $2 are compared" [ "$(json rows.0.kind)s" = "$2" ]
    that "$1: values were compared" [ "$(json rows.0.values)" -gt 0 ]
    that "$1: every hash is stored; run make hashes" [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
    that "$1: no fewer" [ "$(grep -c '"against": "stored"' "$work/out")" -ge 80 ]
}
backends=cpu
in_full && ! sanitized && backends='ref all' # minutes
for backend in $backends; do stored_hashes $backend operations; done
stored_hashes all methods
ok verify --backend ref --against stored --only operations --effort 0 --json -q
that 'other efforts are compared with ref' [ "$(json rows.0.against)" = ref ]

ok verify --backend all --math int8 --only methods --against stored --json -q
that 'int8: equal' [ "$(json equal)" = true ]
that 'int8: rows are called so' [ "$(json rows.0.name)" = int8:full ]
that 'int8: every hash is stored; run make hashes' [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
ok verify --backend cpu --math int16 --only methods --against stored --kv full --kv snapkv:budget=66 --json -q
that 'int16: equal' [ "$(json equal)" = true ]
that 'int16: the version is there' [ "$(json int16)" -ge 1 ]
that 'int16: rows are called so' [ "$(json rows.0.name)" = int16:full ]
that 'int16: every hash is stored; run make hashes' [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
# A difference is found in the user's own model, too, compared with ref.
ok convert "$top_srcdir/data/demo" -o "$work/q4_0.gguf" --type q4_0 -q
ok verify --backend cpu --math int8 --only methods --kv full --kv snapkv:budget=40 --prompt 60 --gen 4 -m "$work/q4_0.gguf"
has 'Equal to the reference, bit for bit (arithmetic [0-9]*, int8 [0-9]*)'
KVCULL_INJECT=linear_int8 kv verify --backend cpu --math int8 --only methods --kv full --prompt 30 --gen 1 -q >"$work/out" \
    2>"$work/err"
that 'a fault of linear_int8 is found' [ $? = 1 ]
KVCULL_INJECT=linear_int16 kv verify --backend cpu --math int16 --only methods --kv full --prompt 30 --gen 1 -q \
    >"$work/out" 2>"$work/err"
that 'a fault of linear_int16 is found' [ $? = 1 ]
TMPDIR=$work/none fails 4 'set TMPDIR' verify --backend cpu --math int8 --only methods --kv full -q

# Whole runs compared with ref, step by step.
ok verify --only methods --prompt 130 --gen 6
has '^Equal to the reference'
for method in full window streaming snapkv morphkv duo 'morphkv:budget=.*,fusion=max' 'snapkv:.*morphkv:' \
    'dapq:.*,content=file'; do
    has " [0-9a-f]\{16\}  $method"
done
narrow
# Every method with models in which some layers have no experts, or norms of q and k have weights for each head.
families='qwen2-moe-dense cohere-plus' shapes='tiny-gemma2 tiny-gemma3 tiny-gpt-oss' some=
in_full || some='--kv full --kv snapkv:budget=40,window=8 --kv h2o:budget=40 --kv cake:budget=40,window=8 --kv quest:budget=40
    --kv fastkv:budget=40,window=8,tsp=30 --kv take:budget=40,chunk=16,probe=4 --kv topk:budget=40 --kv morphkv:budget=40,window=8'
sanitized && families=qwen2-moe-dense shapes=tiny-gemma3
for family in $families; do
    ok verify --only methods --prompt 70 --gen 5 -m "$source/tests/data/golden/$family" $some
    has '^Equal to the reference'
done
# Every method on Gemma: layers with and without a window, two ropes, soft caps of scores. On gpt-oss: sinks, experts.
for shape in $shapes; do
    ok mkmodel --shape $shape --type f16 --seed 3 -o "$work/$shape.gguf" -q
    ok verify --only methods --prompt 130 --gen 6 -m "$work/$shape.gguf" $some
    has '^Equal to the reference'
    has " [0-9a-f]\{16\}  topk"
    that "$shape: no method that wants no window" [ "$(grep -c 'positions=cache' "$work/out")" = 0 ]
done
# The same with recurrent layers, whose state no method sees.
for model in qwen35/model.gguf qwen3-next; do
    ok verify --only methods -m "$source/tests/data/golden/$model" --kv full --kv snapkv:budget=32,window=8 \
        --kv fastkv:budget=32,window=8 --kv morphkv:budget=40 --kv take:budget=32,chunk=16,probe=4 --prompt 70 --gen 4
    has '^Equal to the reference'
done
ok verify --only methods --kv 'morphkv:budget=20,window=8' --prompt 50 --gen 4 --json -q
that 'policies as given' [ "$(json rows.0.name)" = 'morphkv:budget=20,window=8' ]
that 'one prompt and four steps' [ "$(json rows.0.cases)" = 5 ]

# An injected fault is found and located, and no other fault is reported.
ok verify --only operations --backend cpu --effort 0 --json -q
operations=$(sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$work/out")
that 'there are operations' [ "$(echo $operations | wc -w)" -ge 39 ]
in_full || operations=$(echo $operations | tr ' ' '\n' | awk 'NR % 15 == 1') # tests/core/test_verify finds them all
for operation in $operations; do
    KVCULL_INJECT=$operation kv verify --only operations --backend cpu --effort 0 --json -q >"$work/out" 2>"$work/err"
    that "fault in $operation: status 1" [ $? = 1 ]
    found=$(awk '/"name":/ { name = $2 } /"differing":/ && $2 + 0 > 0 { print name }' "$work/out")
    that "fault in $operation: $found is found" [ "$found" = "\"$operation\"," ]
    has "^  \"first\": \"cpu, operation $operation: .*\[[0-9]*\] is [0-9a-f]\{8\}, ref has [0-9a-f]\{8\}\""
done
# --small also finds each of them, with other cases.
for operation in $operations; do
    KVCULL_INJECT=$operation kv verify --only operations --backend cpu --effort 0 --small --json -q >"$work/out" 2>"$work/err"
    that "fault in $operation, small: status 1" [ $? = 1 ]
    found=$(awk '/"name":/ { name = $2 } /"differing":/ && $2 + 0 > 0 { print name }' "$work/out")
    that "fault in $operation, small: $found is found" [ "$found" = "\"$operation\"," ]
done
KVCULL_INJECT=linear kv verify --only operations --backend cpu --effort 0 >"$work/out" 2>"$work/err"
that 'an injected fault: status 1' [ $? = 1 ]
has '^DIFFERENT: .*the first: cpu, operation linear: '
narrow_but_last() { sed '$d' "$work/out" >"$work/table"; mv "$work/table" "$work/out"; narrow; }
narrow_but_last
KVCULL_INJECT=nosuch fails 2 KVCULL_INJECT=nosuch verify --only operations -q
KVCULL_INJECT=norm fails 2 'must not be set' verify --write-hashes "$work/hashes" -q
that 'nothing is written then' [ ! -e "$work/hashes" ]

# If a method only selects which entries are read, a changed read list is counted, and nothing else differs.
KVCULL_INJECT=select_reads kv verify --only methods --backend cpu --kv 'quest:budget=66' --gen 5 --json -q \
    >"$work/out" 2>"$work/err"
that 'a changed read list: status 1' [ $? = 1 ]
that 'what is read differs' [ "$(json rows.0.read_differing)" -gt 0 ]
that 'what is kept does not' [ "$(json rows.0.kept_differing)" = 0 ]
KVCULL_INJECT=keep kv verify --only methods --backend cpu --kv 'snapkv:budget=66' --gen 5 --json -q \
    >"$work/out" 2>"$work/err"
that 'changed entries: status 1' [ $? = 1 ]
that 'what is kept differs' [ "$(json rows.0.kept_differing)" -gt 0 ]
that 'what is attended differs, too' [ "$(json rows.0.read_differing)" -gt 0 ]
that 'and the logits' [ "$(json rows.0.differing_bits)" -gt 0 ]
has 'is kept by only one of the two'
# The file of hashes: written again it is the same; if it is damaged or outdated, the error is one line.
mkdir "$work/data"
ln -s "$demo" "$work/data/demo"
stored() { KVCULL_DATA=$work/data fails "$@" verify --backend cpu --against stored --only operations -q; }
stored 3 'hashes.txt'
head -n 20 "$KVCULL_DATA/hashes.txt" >"$work/data/hashes.txt"
stored 3 'hashes.txt: line 20: the file is cut off'
sed 's/^operation add \([0-9]*\) ./operation add \1 x/' "$KVCULL_DATA/hashes.txt" >"$work/data/hashes.txt"
stored 3 'the lines before it were changed'
: >"$work/data/hashes.txt"
stored 3 'hashes.txt: line 1'
ok verify --write-hashes "$work/data/hashes.txt" --only operations --effort 0 -q
KVCULL_DATA=$work/data ok verify --backend cpu --against stored --only operations --effort 0 -q
has '^backend'
# Compared with stored hashes, an injected fault is found and located as well.
KVCULL_DATA=$work/data KVCULL_INJECT=zero kv verify --backend cpu --against stored --only operations --effort 0 --json -q \
    >"$work/out" 2>"$work/err"
that 'a fault, against stored hashes: status 1' [ $? = 1 ]
has '"first": "cpu, operation zero: .*ref has'
"$build/tests/cli/stale_hashes" "$work/data" norm
KVCULL_DATA=$work/data fails 3 'norm: the hash of ref.s results differs' \
    verify --backend cpu --against stored --only operations --effort 0 -q
"$build/tests/cli/stale_hashes" "$work/data" arithmetic
stored 3 'has hashes of arithmetic 0'

fails 2 'kv nosuch' verify --kv nosuch -q --backend cpu
kv verify --backend nosuch -q >"$work/out" 2>"$work/err"
that 'a backend that is not there' [ $? -ge 2 ]
check_error nosuch 'verify --backend nosuch'

mkdir "$work/temporary"
TMPDIR=$work/temporary
export TMPDIR
ok bench --shape tiny --kv 'streaming:budget=24' --kv 'morphkv:budget=24,window=8' --prompt 40,60 --gen 8 --batch 1,3 \
    --repeat 2
has '^Prefill'
has '^Decode'
has '^Memory'
has 'memory reads at [0-9.]* GB/s'
narrow
ok bench -m "$demo" --kv 'snapkv:budget=64' --kv full --prompt 600 --gen 4 --json -q
that 'two prefills' [ "$(json prefill)" = '[2]' ]
that 'two decodes' [ "$(json decode)" = '[2]' ]
that 'layer-major: at most one full layer and what is kept' \
    [ "$(json prefill.0.peak_bytes)" -le $(($(json prefill.0.one_layer_full_bytes) + $(json prefill.0.kept_bytes))) ]
that 'and less than full' [ "$(json prefill.0.peak_bytes)" -lt "$(json prefill.1.peak_bytes)" ]
that 'hidden states are shown' [ "$(json prefill.0.hidden_bytes)" -gt 0 ]
that 'a bounded cache reads less' \
    [ "$(json decode.0.cache_read_bytes_per_step)" -lt "$(json decode.1.cache_read_bytes_per_step)" ]
ok bench --shape tiny --fill --prompt 700 --gen 4 --batch 2 --kv full --kv 'rocketkv:budget=64' --json -q
that 'synthetic, and said so' [ "$(json synthetic)" = true ]
that 'no prefill' [ "$(json prefill)" = '[0]' ]
that 'full reads what it would after a prompt' \
    [ "$(json decode.0.cache_read_bytes_per_step)" = "$(json decode.0.cache_read_bytes_by_formula | sed 's/\.0$//')" ]
that 'the prompt stage thinned the entries' [ "$(json decode.1.cache_bytes.0)" -lt "$(json decode.0.cache_bytes.0)" ]
echo '5 1,2' >"$work/ids"
ok bench --shape tiny --kv "dapq:budget=5,content=file,file=\"$work/ids\"" --prompt 40 --gen 2
ok bench --shape tiny --fill --prompt 40 --gen 2
has '^Decode with synthetic entries'
ok bench --shape tiny --fill --prompt 700 --gen 0 --kv full --kv 'cake:budget=64' --json -q
that 'made-up prompts are timed' [ "$(json prefill)" = '[2]' ] && [ "$(json decode)" = '[0]' ]
that 'and thinned' [ "$(json prefill.1.kept_bytes)" -lt "$(json prefill.0.kept_bytes)" ]
ok bench --shape tiny --fill --prompt 700 --gen 0
has '^Prefill with synthetic entries'
nothing_left "$work/temporary"
TMPDIR=$work/none fails 4 'set TMPDIR' bench --shape tiny -q
ok bench -m "$demo" --prompt 20 --gen 0 --json -q
that 'prefill only' [ "$(json decode)" = '[0]' ]

ok eval --help
has 'needle'
ok eval needle -m "$demo" --kv full --kv 'streaming:budget=32' --length 200 --texts 1 --depths 2 -q
has '^full'
has '^streaming'
narrow
finish
