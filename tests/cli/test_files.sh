#!/bin/sh
# Commands that read or write files: mkmodel, convert, logits, replay, tokenize, perplexity, collect.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
words='then the old sailor found the red kettle near the harbor .'

# ---- mkmodel and convert
ok mkmodel --list
has '^tiny '
ok mkmodel --list --json
that 'its first shape' [ "$(json shapes.0.name)" = tiny ]
ok mkmodel --shape tiny --type f32 --seed 3 -o "$work/a.gguf" -q
ok mkmodel --shape tiny --type f32 --seed 3 -o "$work/b.gguf" --json
that 'its type' [ "$(json type)" = f32 ]
that 'its size' [ "$(json bytes)" = "$(wc -c <"$work/b.gguf")" ]
that 'the same seed, the same file' cmp -s "$work/a.gguf" "$work/b.gguf"
ok mkmodel --shape tiny --type f32 --seed 4 -o "$work/b.gguf" -q
that 'another seed, another file, instead of it' sh -c "! cmp -s '$work/a.gguf' '$work/b.gguf'"
ok convert "$demo" -o "$work/demo.gguf" --type f32
has 'demo.gguf: ' "$work/err"
for type in f16 q8_0; do
    ok convert "$demo" -o "$work/$type.gguf" --type $type -q
    ok run -m "$work/$type.gguf" -p "$words" -n 5 --temp 0 -q
done
ok info "$work/q8_0.gguf"
has 'q8_0'
ok convert "$work/q8_0.gguf" -o "$work/folder/" --type f32 --json
that 'its size' [ "$(json bytes)" = "$(wc -c <"$work/folder/model.safetensors")" ]
ok logits -m "$work/q8_0.gguf" --tokens 1,2,3,4,5 --math float --json --out "$work/a.safetensors"
hash=$(json hash)
ok logits -m "$work/folder" --tokens 1,2,3,4,5 --json --out "$work/a.safetensors"
that 'the same hash from the folder' [ "$(json hash)" = "$hash" ]
ok run -m "$work/folder" -p "$words" -n 5 --temp 0 -q
rm -r "$work/folder" "$work/a.safetensors"
for type in f32 bf16 f16 q8_0; do
    ok convert "$demo" -o "$work/demo-$type.gguf" --type $type -q
    ok convert "$work/demo-$type.gguf" -o "$work/folder/" --json
    case $type in f32 | bf16) want=$type ;; *) want=f16 ;; esac
    that "a folder of $type is of $want" [ "$(json type)" = $want ]
    ok convert "$work/folder" -o "$work/again/" --json
    that "a folder of a folder of $want is of $want" [ "$(json type)" = $want ]
    rm -r "$work/folder" "$work/again" "$work/demo-$type.gguf"
done
ok convert "$demo" -o "$work/type.gguf" --json
that 'a file without a type asked for is of q8_0' [ "$(json type)" = q8_0 ]
ok convert "$demo" -o "$work/type.gguf" --type q4_k
note='25 matrices have rows that do not fit q4_k: they are q8_0'
has "type.gguf: $note" "$work/err"
ok convert "$demo" -o "$work/type.gguf" --type q4_k --json
that 'the same note in JSON' [ "$(json note)" = "$note" ]
rm "$work/type.gguf"
fails 2 'none-00001-of-00003.gguf: is the name of one part of a model' convert "$demo" -o "$work/none-00001-of-00003.gguf"
fails 2 'none-00001-of-00003.gguf: is the name of one part of a model' mkmodel --shape tiny -o "$work/none-00001-of-00003.gguf"
fails 3 'gated delta nets cannot be written' convert "$source/tests/data/golden/qwen35" -o "$work/none.gguf"
fails 3 'gated delta nets cannot be written' convert "$source/tests/data/golden/qwen35" -o "$work/none/"
# refuses MODEL CHANGE PATTERN OUT: a folder with a changed config.json cannot be converted.
refuses() {
    cp -R "$source/tests/data/golden/$1" "$work/changed"
    sed "$2" "$source/tests/data/golden/$1/config.json" >"$work/changed/config.json"
    fails 3 "changed: $3" convert "$work/changed" -o "$work/$4"
    rm -r "$work/changed"
}
refuses smollm3 's/"no_rope_layer_interval": 4/"no_rope_layers": [1, 0, 1, 1, 0]/' 'no_rope_layers other than every 4th' none.gguf
refuses qwen2-yarn 's/"type": "yarn"/"type": "yarn", "truncate": false/' 'yarn scaling with truncate=false or mscale' none.gguf
for out in none.gguf none/; do
    refuses llama2 's/"num_hidden_layers": 3/"num_hidden_layers": 4/' 'tensor .*layers.3.input_layernorm.weight is missing' $out
done
refuses smollm3 's/"intermediate_size": 38/"intermediate_size": 40/' 'tensor .*gate_proj.weight does not have the shape' none.gguf
refuses smollm3 's/"intermediate_size": 38/"intermediate_size": 40/' 'tensor .*gate_proj.weight is 38 x 24, it must be 40 x 24' none/
that 'no temporary file stays' [ -z "$(ls "$work" | grep -v '\.gguf$\|^out$\|^err$')" ]

# ---- a vocabulary without weights
vocabulary=$source/tests/data/tokenizers/qwen2/vocab.gguf
ok tokenize -m "$vocabulary" 'the old sailor'
vocabulary_ids=$(cat "$work/out")
ok tokenize -m "$source/tests/data/tokenizers/qwen2" 'the old sailor'
that 'the same tokens from its tokenizer.json, which has no weights either' [ "$(cat "$work/out")" = "$vocabulary_ids" ]
ok tokenize -m "$vocabulary" --decode "$vocabulary_ids"
has '^the old sailor$'
ok info "$vocabulary"
has '^weights .*none: a vocabulary, which kvcull tokenize takes'
ok info "$vocabulary" --json
that 'no layers' [ "$(json layers)" = 0 ]
fails 3 'vocab.gguf: is a vocabulary without weights: `kvcull tokenize` takes it' run -m "$vocabulary" -p x
fails 3 'vocab.gguf: is a vocabulary without weights' logits -m "$vocabulary" --tokens 1
fails 3 'vocab.gguf: is a vocabulary without weights' convert "$vocabulary" -o "$work/none.gguf"

# ---- logits: bit-identical from both formats, with any chunks, from any backend
ok tokenize -m "$demo" "$words"
ids=$(cat "$work/out")
ok logits -m "$demo" --tokens "$ids" --out "$work/one.safetensors" --json
hash=$(json hash)
that 'a hash' [ ${#hash} = 16 ]
that 'the size of the file' [ "$(wc -c <"$work/one.safetensors")" -gt $((13 * 330 * 4)) ]
for how in '--chunk 1' '--chunk 7' '--backend ref' '--threads 1' '--prompt 5' '--prompt 1 --threads 2' \
    '--kv window:budget=50' '--kv morphkv:budget=50 --prompt 5'; do
    ok logits -m "$demo" --tokens "$ids" --out "$work/two.safetensors" --json $how
    that "the same hash with $how" [ "$(json hash)" = "$hash" ]
    that "the same file with $how" cmp -s "$work/one.safetensors" "$work/two.safetensors"
done
ok logits -m "$work/demo.gguf" --tokens "$ids" --json
that 'the same hash from GGUF' [ "$(json hash)" = "$hash" ]
printf '%s' "$words" >"$work/text"
ok logits -m "$demo" -f "$work/text" --json
that 'the same hash from text' [ "$(json hash)" = "$hash" ]
echo "$ids" | tr , '\n' >"$work/ids"
ok logits -m "$demo" --tokens "@$work/ids"
has "^hash    $hash (XXH64, arithmetic "
ok logits -m "$demo" --tokens "$ids" --kv 'streaming:budget=6,sinks=2' --prompt 8 --json
that 'eviction changes the logits' [ "$(json hash)" != "$hash" ]
that 'and keeps the budget' [ "$(json memory.entries_most)" = 6 ]

# ---- --math fast: always reported, with its measured difference from exact
if kv logits -m "$demo" --tokens "$ids" --math fast >"$work/out" 2>"$work/err"; then
    many=$ids,$ids,$ids,$ids # enough rows that the BLAS library computes them
    for how in '' '--prompt 30'; do
        ok logits -m "$demo" --tokens "$many" $how --json
        that 'exact has no distance' [ "$(json distance)" = '(none)' ]
        exact=$(json hash)
        ok logits -m "$demo" --tokens "$many" $how --math fast --out "$work/fast.safetensors" --json
        has 'warning: --math fast' "$work/err"
        that 'JSON names the arithmetic' [ "$(json math)" = fast ]
        that 'every row was compared' [ "$(json distance.rows)" = 52 ]
        that 'fast is near exact' awk "BEGIN { exit !($(json distance.relative) < 1e-4) }"
        if [ "$(json hash)" = "$exact" ]; then
            that 'the same hash, no distance' [ "$(json distance.largest)" = 0 ]
        else
            that 'another hash, a distance' [ "$(json distance.largest)" != 0 ]
        fi
    done
    ok run -m "$demo" -p "$words" -n 2 --temp 0 --math fast -q
    has 'warning: --math fast' "$work/err"
    printf '%s' "$words" >"$work/text"
    ok perplexity -m "$demo" -f "$work/text" --math fast -q
    has 'warning: --math fast' "$work/err"
else
    check_error 'math=fast needs OpenBLAS' 'logits --math fast'
fi
fails 2 'math=fast needs another backend' logits -m "$demo" --tokens "$ids" --math fast --backend ref

# ---- --math int8, the default: bit-identical with any chunks, from any backend; different from float for quantized
# weights
ok logits -m "$demo" --tokens "$ids" --math int8 --json
that 'weights of 32 bits are not quantized' [ "$(json distance.largest)" = 0 ]
that 'and have the same bits' [ "$(json hash)" = "$hash" ]
that 'which JSON says' [ "$(json math)" = float ]
ok mkmodel --shape small --type q4_k --seed 5 -o "$work/q4_k.gguf" -q
ok convert "${top_srcdir:-.}/tests/data/golden/olmoe-gqa" -o "$work/experts.gguf" --type q8_0 -q
for model in q8_0 q4_k experts; do
    few=1,2,3,4,5,6,7,8,9,10,11,12,13
    ok logits -m "$work/$model.gguf" --tokens $few --math float --json
    float=$(json hash)
    ok logits -m "$work/$model.gguf" --tokens $few --math exact --json
    that 'exact is another word for float' [ "$(json hash)" = "$float" ]
    ok logits -m "$work/$model.gguf" --tokens $few --json
    int8=$(json hash)
    that 'int8 is the default' [ "$(json math)" = int8 ]
    that 'and compared with float where it is asked for' [ "$(json distance)" = '(none)' ]
    ok logits -m "$work/$model.gguf" --tokens $few --math int8 --json
    that "the same bits by its name ($model)" [ "$(json hash)" = "$int8" ]
    that "int8 has other bits ($model)" [ "$int8" != "$float" ]
    that 'int8 is near float' awk "BEGIN { exit !($(json distance.relative) < 0.1) }"
    for how in '--chunk 1' '--chunk 7' '--backend ref' '--threads 1' '--prompt 5' '--prompt 1 --threads 2'; do
        ok logits -m "$work/$model.gguf" --tokens $few --math int8 --json $how
        that "the same hash of int8 with $how ($model)" [ "$(json hash)" = "$int8" ]
    done
done
ok logits -m "$work/q8_0.gguf" --tokens "$ids" --math int8
has ', int8 [0-9]'
has '^int8 .* from float'
ok run -m "$work/q8_0.gguf" -p "$words" -n 2 --temp 0
has '^math    int8' "$work/err"
ok run -m "$work/q8_0.gguf" -p "$words" -n 2 --temp 0 --math float
that 'float has no line of its own' [ "$(grep -c '^math' "$work/err")" = 0 ]
ok info "$work/q8_0.gguf"
has '^arithmetic  *int8'
ok info "$demo"
has '^arithmetic  *float'
printf '%s' "$words" >"$work/text"
ok perplexity -m "$work/q8_0.gguf" -f "$work/text" --json -q
that 'perplexity names the arithmetic' [ "$(json math)" = int8 ]

# ---- --math int16: bit-identical with any chunks, from any backend; near float for weights of floats, and equal to it
# for quantized weights
ok convert "${top_srcdir:-.}/tests/data/golden/olmoe-gqa" -o "$work/experts_f16.gguf" --type f16 -q
for model in "$demo" "$work/experts_f16.gguf"; do
    few=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18
    ok logits -m "$model" --tokens $few --math float --json
    float=$(json hash)
    ok logits -m "$model" --tokens $few --math int16 --json
    int16=$(json hash)
    that 'int16 is in force' [ "$(json math) $(json int16)" = 'int16 2' ]
    that "int16 has other bits ($model)" [ "$int16" != "$float" ]
    that 'int16 is near float' awk "BEGIN { exit !($(json distance.relative) < 0.01) }"
    for how in '--chunk 1' '--chunk 7' '--backend ref' '--threads 1' '--prompt 5' '--prompt 1 --threads 2'; do
        ok logits -m "$model" --tokens $few --math int16 --json $how
        that "the same hash of int16 with $how ($model)" [ "$(json hash)" = "$int16" ]
    done
done
ok logits -m "$work/q8_0.gguf" --tokens $few --math float --json
float=$(json hash)
ok logits -m "$work/q8_0.gguf" --tokens $few --math int16 --json
that 'quantized weights have the bits of float' [ "$(json hash) $(json math)" = "$float float" ]
ok logits -m "$demo" --tokens "$ids" --math int16
has ', int16 [0-9]'
has '^int16 .* from float'
ok run -m "$demo" -p "$words" -n 2 --temp 0 --math int16
has '^math    int16' "$work/err"

# ---- replay, with tensors made by this test: q[t][h][i], k and v are small numbers; one layer occurs twice
"$build/tests/cli/make_dump" "$work/dump.safetensors" 2 40 4 2 8 || exit 1
ok replay --kv 'streaming:budget=8,sinks=2' --prompt 30 --in "$work/dump.safetensors" --out "$work/kept.json" \
    --attn "$work/attn.safetensors"
cp "$work/kept.json" "$work/out"
that 'the policy is named' [ "$(json kv)" = 'streaming:budget=8,sinks=2' ]
that 'the prompt and ten steps' [ "$(json steps)" = '[11]' ]
that 'the prompt comes first' [ "$(json steps.0.at)" = prompt ]
that 'then row by row' [ "$(json steps.10.at)" = 39 ]
that 'two layers' [ "$(json steps.0.kept)" = '[2]' ]
that 'two heads' [ "$(json steps.0.kept.1)" = '[2]' ]
that 'eight entries' [ "$(json steps.5.kept.1.1)" = '[8]' ]
that 'the sinks' [ "$(json steps.10.kept.0.0.1)" = 1 ]
that 'and the newest' [ "$(json steps.10.kept.0.0.2)" = 34 ]
that 'the outputs' [ "$(wc -c <"$work/attn.safetensors")" -gt $((2 * 10 * 4 * 8 * 4)) ]
ok replay --kv full --in "$work/dump.safetensors" -q
that 'all rows are the prompt' [ "$(json steps)" = '[1]' ]
that 'full keeps all' [ "$(json steps.0.kept.0.0)" = '[40]' ]
for how in '--chunk 1' '--backend ref' '--threads 1'; do
    ok replay --kv 'morphkv:budget=12,window=4' --prompt 30 --in "$work/dump.safetensors" -q
    cp "$work/out" "$work/first"
    ok replay --kv 'morphkv:budget=12,window=4' --prompt 30 --in "$work/dump.safetensors" -q $how
    that "the same entries with $how" cmp -s "$work/out" "$work/first"
done
fails 2 'prompt 41' replay --kv full --prompt 41 --in "$work/dump.safetensors"
fails 2 'no rows after the prompt' replay --kv full --in "$work/dump.safetensors" --attn "$work/none.safetensors"
"$build/tests/cli/make_dump" "$work/odd.safetensors" 2 40 3 2 8 || exit 1
fails 3 'not a multiple' replay --kv full --in "$work/odd.safetensors"
"$build/tests/cli/make_dump" "$work/gap.safetensors" 1 40 4 2 8 layers.2.q:40:4:8 || exit 1
fails 3 'has layers.2.q, but no tensor layers.1.q' replay --kv full --in "$work/gap.safetensors"
for tensors in 'q:39:4:8 k:40:2:8 v:40:2:8' 'q:40:4:8 k:40:1:8 v:40:2:8' 'q:40:4:8 k:40:2:8 v:40:2:4'; do
    "$build/tests/cli/make_dump" "$work/gap.safetensors" 1 40 4 2 8 $(printf ' layers.1.%s' $tensors) || exit 1
    fails 3 'layers.1..: has shape .*; must be \[40, [24], 8\]' replay --kv full --in "$work/gap.safetensors"
done
header='{"layers.0.q":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}'
printf "\\$(printf %o ${#header})\0\0\0\0\0\0\0%s0123456789abcdef" "$header" >"$work/flat.safetensors"
fails 3 'layers.0.q: has the wrong shape; it takes' replay --kv full --in "$work/flat.safetensors"
fails 2 'is the same file as --out' replay --kv full --prompt 30 --in "$work/dump.safetensors" --out "$work/x" --attn "$work/x"

# pseudo and probe rows that come with the dump; if they are missing or have the wrong shape, the message names them
dump() { "$build/tests/cli/make_dump" "$work/extra.safetensors" 2 40 4 2 8 "$@" || exit 1; }
pseudo='layers.0.pseudo_q:3:4:8 layers.0.pseudo_k:3:2:8 layers.1.pseudo_q:3:4:8 layers.1.pseudo_k:3:2:8'
dapq='dapq:budget=8,pseudo=3,content=random'
dump $pseudo
ok replay --kv "$dapq" --prompt 30 --in "$work/extra.safetensors" -q
that 'eight entries of the prompt' [ "$(json steps.0.kept.1.1)" = '[8]' ]
that 'and one more a step' [ "$(json steps.10.kept.1.1)" = '[18]' ]
that 'no pseudo entry' [ "$(json steps.1.kept.0.0.8)" = 30 ]
ok replay --kv "$dapq+topk:budget=5" --prompt 30 --in "$work/extra.safetensors" -q
that 'five are read' [ "$(json steps.3.read.1.0)" = '[5]' ]
fails 3 'needs 3 pseudo rows; the prompt has 0' replay --kv "$dapq" --prompt 30 --in "$work/dump.safetensors" -q
fails 3 'needs 4 pseudo rows; the prompt has 3' replay --kv dapq:budget=8,pseudo=4,content=random --prompt 30 \
    --in "$work/extra.safetensors" -q
dump layers.0.pseudo_q:3:4:8 layers.0.pseudo_k:3:2:8
fails 3 '0 pseudo rows in layer 1: must be 3' replay --kv "$dapq" --prompt 30 --in "$work/extra.safetensors" -q
for bad in q:3:2:8 q:3:4:9 k:3:4:8 k:3:2:7; do
    dump layers.0.pseudo_$bad
    fails 3 'layers.0.pseudo_' replay --kv "$dapq" --prompt 30 --in "$work/extra.safetensors" -q
done
dump layers.0.pseudo_q:3:4:8 layers.0.pseudo_k:2:2:8
fails 3 'pseudo_k: has 2 rows; pseudo_q has 3' replay --kv "$dapq" --prompt 30 --in "$work/extra.safetensors" -q
take=take:budget=8,warmup_budget=12,warmup_layers=1,chunk=12,probe=4
dump layers.0.probe_q.0:4:4:8 layers.0.probe_q.1:4:4:8 layers.1.probe_q.0:4:4:8 layers.1.probe_q.1:4:4:8
ok replay --kv "$take" --prompt 30 --in "$work/extra.safetensors" -q
that 'three chunks, the prompt, ten steps' [ "$(json steps)" = '[14]' ]
that 'chunks are named' [ "$(json steps.1.at).$(json steps.1.chunk)" = chunk.1 ]
that 'the warm-up layer keeps more between them' [ "$(json steps.0.kept.0.1)" = '[12]' ]
that 'the budget above it' [ "$(json steps.1.kept.1.0)" = '[8]' ]
that 'and everywhere after the last' [ "$(json steps.2.kept.0.1)" = '[8]' ]
fails 3 'layer 0, chunk 0: 4 probe queries must come' replay --kv "$take" --prompt 30 --in "$work/dump.safetensors" -q
fails 3 'layer 0, chunk 2: 4 probe queries must come' replay --kv "$take" --prompt 40 --in "$work/extra.safetensors" -q
dump layers.0.probe_q.0:4:4:8 layers.0.probe_q.1:2:4:8 layers.1.probe_q.0:4:4:8 layers.1.probe_q.1:4:4:8
fails 3 'layer 0, chunk 1: 2 probe queries; those before have 4' replay --kv "$take" --prompt 30 \
    --in "$work/extra.safetensors" -q
dump layers.0.probe_q.0:4:2:8
fails 3 'layers.0.probe_q.0: has the wrong shape' replay --kv "$take" --prompt 30 --in "$work/extra.safetensors" -q

# A write-protected file is not replaced, not even for root.
echo kept >"$work/kept.json"
chmod 444 "$work/kept.json"
fails 4 'write-protected' replay --kv full --in "$work/dump.safetensors" --out "$work/kept.json" -q
that 'a write-protected file stays' [ "$(cat "$work/kept.json")" = kept ]

if [ -w /dev/full ]; then
    fails 4 'No space' replay --kv full --in "$work/dump.safetensors" --out /dev/full -q
fi

# ---- tokenize
ok tokenize -m "$demo" --no-bos "$words"
that 'without <s> in front' [ "$ids" = "$(kv tokenize -m "$demo" '' ),$(cat "$work/out")" ]
ok tokenize -m "$demo" --decode "$(cat "$work/out")"
is "$words"
ok tokenize -m "$demo" --decode -f "$work/ids"
has 'old sailor'
ok tokenize -m "$demo" --pieces "$words"
that 'a line a token' [ "$(wc -l <"$work/out")" = 14 ]
ok tokenize -m "$demo" -p "$words" --json
that 'ids are numbers' [ "$(json tokens)" = '[13]' ]
that 'pieces beside them' [ "$(json pieces)" = '[13]' ]
ok tokenize -m "$demo" --decode "$ids" --json
that 'the text of ids in JSON' [ "$(json tokens) $(json text)" = "[13] $words" ]
ok tokenize -m "$demo" --decode "$ids" --pieces
that 'the pieces of ids, below a heading' [ "$(wc -l <"$work/out")" = 14 ]
ok tokenize -m "$vocabulary" --pieces "$(printf '\t\r\001\177\360\221\204\237')"
for piece in '\\t' '\\r' '\\x01' '\\x7f' '\\x9f'; do has "$piece"; done
ok tokenize -m "$demo" then the old
that 'words are joined' [ "$(tr , '\n' <"$work/out" | wc -l)" = 4 ]

# ---- perplexity
for i in 1 2 3 4 5 6 7 8; do printf '%s ' "$words"; done >"$work/text"
ok perplexity -m "$demo" -f "$work/text" --prompt 1 --json
that 'all tokens but the first' [ "$(json results.0.scored)" = 96 ]
whole=$(json results.0.perplexity)
ok perplexity -m "$demo" -f "$work/text" --prompt 1 --kv full --kv window:budget=1000 --json
that 'token by token it is the same' [ "$(json results.0.perplexity)" = "$whole" ]
# The same tokens are scored whatever policies are named, and a message says so.
ok perplexity -m "$demo" -f "$work/text" --json
whole=$(json results.0.perplexity)
that 'half a window is its prompt' [ "$(json prompt) $(json scored) $(json results.0.scored)" = '48 49 49' ]
ok perplexity -m "$demo" -f "$work/text" --kv window:budget=1000 --json
that 'another policy is scored on the same' [ "$(json prompt) $(json scored) $(json results.0.scored)" = '48 49 49' ]
that 'and within its budget as full' [ "$(json results.0.perplexity)" = "$whole" ]
for kv in full window:budget=1000; do
    ok perplexity -m "$demo" -f "$work/text" --kv $kv
    has '^1 window of at most 97 tokens; the first 48 of each are its prompt, the others are scored$'
done
echo then >"$work/two"
ok perplexity -m "$demo" -f "$work/two" --json
that 'of one token there is no standard error' [ "$(json results.0.scored) $(json results.0.standard_error)" = '1 null' ]
ok perplexity -m "$demo" -f "$work/two"
has '^full  *[0-9.]*  *-  *1 '
ok perplexity -m "$work/q8_0.gguf" -f "$work/two" --ctx 100
has '^math int8'
fails 2 'windows of 1 tokens with a prompt of 0 leave no token' perplexity -m "$demo" -f "$work/text" --ctx 1
fails 2 'windows of 97 tokens with a prompt of 97 leave no' perplexity -m "$demo" -f "$work/text" --prompt 97
ok perplexity -m "$demo" -f "$work/text" --ctx 40 --windows 1 --json
that 'one window where there are two' [ "$(json windows)" = 1 ]
# Bytes are those of a whole window, not of the shorter one at the end: 300 tokens need ten blocks, 181 six.
for i in 1 2 3 4 5; do cat "$work/text"; done >"$work/long"
ok perplexity -m "$demo" -f "$work/long" --ctx 300 --json
that 'two windows' [ "$(json tokens) $(json windows)" = '481 2' ]
that 'full of a whole window' [ "$(json results.0.memory.full_bytes)" = $((4 * 2 * 320 * 2 * 32 * 2)) ]
that 'the cache too' [ "$(json results.0.memory.cache_bytes)" = $((4 * 2 * 320 * 2 * 32 * 2)) ]
that 'its tokens' [ "$(json results.0.memory.tokens)" = 299 ]
ok perplexity -m "$demo" -f "$work/text" --ctx 40 --kv full --kv 'streaming:budget=12,sinks=2' --kv window:budget=90
has '^streaming:budget=12,sinks=2'
has '^2 windows of at most 40'
narrow
ok perplexity -m "$demo" -f "$work/text" --ctx 40 --kv full --kv window:budget=90 --json
that 'within the budget it is the same' [ "$(json results.0.perplexity)" = "$(json results.1.perplexity)" ]
that 'on as many tokens' [ "$(json results.0.scored)" = "$(json results.1.scored)" ]

# ---- collect
ok collect -m "$demo" -f "$work/text" -o "$work/stats" --math float
has '^queries  *97 tokens, [0-9]* layers of [0-9]* heads of [0-9]*, in '
has '^concentration  [01]\.'
that 'its first line' [ "$(sed -n 1p "$work/stats")" = 'kvcull query statistics 1' ]
ok collect -m "$demo" -f "$work/text" -o "$work/again" --math float --backend ref --chunk 7 --json
that 'the same numbers of another backend and in chunks' cmp -s "$work/stats" "$work/again"
that 'and in JSON' [ "$(json tokens)" = 97 ]
ok collect -m "$demo" -f "$work/text" -o - -n 20 -q
has '^tokens 20$'
ok logits -m "$demo" -f "$work/text" --prompt 40 --kv "triattention:budget=20,every=8,stats=$work/stats"
has ' 2[0-9] of 97 entries in the longest head$'
fails 2 'give a text with -f FILE' collect -m "$demo" -o "$work/none"
fails 3 'is empty; give a file with text' collect -m "$demo" -f /dev/null -o "$work/none"
that 'nothing is left of it' [ ! -e "$work/none" ]
ok collect -m "$demo" -f "$work/text" -o "$work/covariances" --math float --for expected
has '^queries  *93 tokens, '
ok collect -m "$demo" -f "$work/text" -o "$work/again" --math float --backend ref --chunk 7 --for expected -q
that 'the same covariances of another backend and in chunks' cmp -s "$work/covariances" "$work/again"
ok logits -m "$demo" -f "$work/text" --prompt 40 --kv "expected:budget=20,stats=$work/covariances"
fails 3 'stats=.*line 1: must be "kvcull query covariances 1"' run -m "$demo" -p a --kv "expected:budget=20,stats=$work/stats"
fails 3 'has 4 tokens: must be more than 4' collect -m "$demo" -f "$work/text" -n 4 -o "$work/none" --for expected
ok collect -m "$demo" -f "$work/text" -o "$work/filters" --math float --for qfilter
has '^concentration  0\.[0-9]* in the mean over query heads'
ok collect -m "$demo" -f "$work/text" -o "$work/again" --math float --backend ref --chunk 7 --for qfilter -q
that 'the same filters of another backend and in chunks' cmp -s "$work/filters" "$work/again"
ok logits -m "$demo" -f "$work/text" --prompt 40 --kv "qfilter:budget=20,file=$work/filters"
has ' 20 of 97 entries in the longest head$'
ok logits -m "$demo" -f "$work/text" --prompt 40 --kv "dms:window=9,file=$work/filters"
fails 2 'file= is missing: scorer=qfilter reads it' run -m "$demo" -p a --kv dms
sed 5,9d "$work/stats" >"$work/torn"
fails 3 'stats=.*torn: line [0-9]*: must be' run -m "$demo" -p a --kv "triattention:budget=20,stats=$work/torn"
finish
