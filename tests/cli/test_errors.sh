#!/bin/sh
# Every error that a user can cause: the right exit status, and one line with the problem, its place and the valid
# values.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

# ---- commands and options
fails 2 "no command"
fails 2 'did you mean run' rnu
fails 2 'no such command' frobnicate
fails 2 'nosuch: no such command' help nosuch
fails 2 'no such option; `kvcull --help` lists them' --frobnicate
fails 2 'no task' eval
fails 2 'did you mean needle' eval needel
for command in run chat bench verify replay logits tokenize perplexity collect convert mkmodel info; do
    fails 2 "kvcull $command: --frobnicate: no such option" $command --frobnicate
    fails 2 "kvcull $command: -Z: no such option" $command -Z
done
fails 2 'did you mean --temp' run -m "$demo" --tmep 1
fails 2 'needs a value' run -m
fails 2 'needs a value: --kv SPEC' run --kv
fails 2 'takes no value' run --json=yes
fails 2 'no model; give -m MODEL' run
fails 2 'no model' chat
fails 2 'not an option' run -m "$demo" hello
fails 2 'hello: not an option; the model is' chat -m "$demo" hello
fails 2 'the command takes no other words' bench -m "$demo" hello
for value in x '' 1.5 -2 1e3 99999999999999999999; do
    fails 2 'kvcull run: -n.*takes a whole number from -1' run -m "$demo" -n "$value"
done
for value in x '' -1 nan inf; do fails 2 'takes a number from 0 to 1' run -m "$demo" --top-p "$value"; done
fails 2 'takes a whole number from 0 to 1024' run -m "$demo" --threads 5000
fails 2 'takes one of float|int8|int16|fast|exact' run -m "$demo" --math quick
fails 2 'takes one of f32|f16|bf16|q8_0' run -m "$demo" --kv-type q5_0
fails 2 'takes one of f32|f16|bf16|q8_0' run -m "$demo" --kv-type k=q8_0
fails 2 'reads single channels of keys.*use k=q8_0,v=q4h' run -m "$demo" --kv quest:budget=64 --kv-type q4h
fails 2 'sets channels of keys to 0.*use k=q8_0,v=q4_1' run -m "$demo" --kv think --kv-type q4_1
fails 2 'takes one of f32|f16|bf16|q8_0' run -m "$demo" --kv-type nothing
fails 2 'takes a whole number from 1' run -m "$demo" --chunk 0
fails 2 'separated by commas' bench -m "$demo" --prompt 1,,2
fails 2 'separated by commas' bench -m "$demo" --batch 0
fails 2 'takes a size' info "$demo" --mem lots
for size in 1T 1TiB 1tB; do
    ok info "$demo" --prompt 100 --mem $size --json
    that "$size is 2^40 bytes" [ "$(json memory)" = 1099511627776 ]
done
fails 2 'takes at most [0-9]* numbers' bench -m "$demo" --prompt "$(seq -s , 1 200)"
fails 2 'the name is longer than 4095 bytes' run -m "$demo" -p x --trace "$(printf '%4096s' | tr ' ' x)"
fails 2 'no model; give -m MODEL' serve
ok run -qh
has '^Usage: kvcull run'
fails 2 'policy morphkv: budget=10: must be above window=32' run -m "$demo" -p x --kv snapkv:budget=64+morphkv:budget=10
kv run -m "$demo" --backend vulkan >"$work/out" 2>"$work/err"
that 'an unknown backend is refused with 2 or 4' [ $? -ge 2 ]
check_error 'vulkan' 'run --backend vulkan'
fails 2 "backend 'nosuch' is unknown" run -m "$demo" --backend nosuch
fails 2 "backend 'nosuch' is unknown" verify --backend nosuch
fails 3 'nosuch.gguf: cannot be opened' verify -m nosuch.gguf -q # before the operations are run
that 'no operation was run first' [ ! -s "$work/out" ]
fails 2 'either -m MODEL or --shape' bench
fails 2 'either -m MODEL or --shape' bench -m "$demo" --shape tiny
fails 2 'there is no shape nosuch' bench --shape nosuch -q
fails 3 'none: cannot be opened' bench -m "$work/none" -q
fails 2 'either --tokens LIST or -f FILE' logits -m "$demo"
fails 2 'either --tokens LIST or -f FILE' logits -m "$demo" --tokens 1 -f x
fails 2 'give a text with -f FILE' perplexity -m "$demo"
fails 2 'give the text' tokenize -m "$demo"
fails 2 'give the token ids' tokenize -m "$demo" --decode
fails 2 'give a policy' replay --in x
fails 2 'give the tensors' replay --kv full
fails 2 'one model to convert' convert -o "$work/x.gguf"
fails 2 'file to write' convert "$demo"
fails 2 'f32, f16 or bf16, not q8_0' convert "$demo" -o "$work/x/" --type q8_0
fails 2 'geometry' mkmodel -o "$work/x.gguf"
fails 2 'file to write' mkmodel --shape tiny
fails 2 'nosuch' mkmodel --shape nosuch -o "$work/x.gguf"
fails 2 'takes one subject' info "$demo" "$demo"
fails 2 'no such method' info methods nosuch
fails 2 'did you mean morphkv' info methods morpkv

# ---- policies, checked before the model is read
for spec in nosuch '' : 'snapkv:' 'snapkv:budget' 'snapkv:budget=' 'snapkv:budget=x' 'snapkv:budget=0' \
    'snapkv:budget=-5' 'snapkv:budget=1.5' 'snapkv:budget=0%' 'snapkv:budget=101%' 'snapkv:nosuch=1' \
    'snapkv:budget=32' 'snapkv:budget=64,kernel=4' 'snapkv:budget=64,kernel=0' 'snapkv:budget=64,pooling=min' \
    'snapkv' 'streaming:budget=4' 'streaming:budget=4,sinks=4' 'morphkv:budget=32' 'morphkv:budget=64,every=0' \
    'morphkv:budget=64,fusion=mean' 'snapkv:budget=64,budget=65' 'snapkv:budget=64+snapkv:budget=64' \
    'morphkv:budget=64+streaming:budget=64' 'full+' '+full' 'window:budget=64,layers=x' \
    'window:budget=64,skip_layers=-1' 'snapkv:budget=64,stages=decode' 'snapkv:budget="64'; do
    fails 2 'kvcull run: --kv ' run -m "$work/no-such-model" --kv "$spec"
done
fails 2 'snapkv.*prompt\|prompt.*snapkv' run -m "$demo" --kv 'snapkv:budget=64+snapkv:budget=64'

fails 2 "'512': must be option=value, as budget=512$" run -m "$demo" --kv streaming:512
fails 2 "'10%': must be option=value, as budget=10%$" run -m "$demo" --kv streaming:sinks=1,10%
fails 2 "'512': must be option=value$" run -m "$demo" --kv full:512
fails 2 'takes token ids' tokenize -m "$demo" --template chatml --decode 1

# ---- model files
echo 'this is not a model' >"$work/text"
: >"$work/empty"
mkdir "$work/folder"
printf 'GGUF\003\000\000\000' >"$work/cut.gguf"
for command in 'run -m' 'logits --tokens 1 -m' 'tokenize hello -m' 'bench -m' info; do
    fails 3 'none' $command "$work/none"
    fails 3 'text' $command "$work/text"
    fails 3 'empty' $command "$work/empty"
    fails 3 'folder' $command "$work/folder"
    fails 3 'cut.gguf' $command "$work/cut.gguf"
done
fails 3 'none' convert "$work/none" -o "$work/out.gguf"
fails 3 'text' convert "$work/text" -o "$work/out.gguf"
if [ "$(id -u)" != 0 ]; then
    cp "$work/text" "$work/secret"
    chmod 000 "$work/secret"
    fails 3 'ermission denied' run -m "$work/secret"
    fails 3 'ermission denied' run -m "$demo" -f "$work/secret"
fi
name=$(printf 'two\nlines')
fails 3 'two?lines' run -m "$work/$name"

# ---- a model whose logits are not finite: every command reports an error
mkdir "$work/nan"
cp "$demo"/* "$work/nan"
weights=$work/nan/model.safetensors
set -- $(LC_ALL=C awk 'NR == 1 {
    match($0, /"model.layers.1.mlp.down_proj.weight": [{][^}]*data_offsets": \[[0-9]+/)
    at = substr($0, RSTART, RLENGTH)
    sub(/.*\[/, "", at)
    print at
}' "$weights") $(od -An -tu8 -N8 "$weights")
printf '\377\377\377\377' | dd of="$weights" bs=1 seek=$(($1 + $2 + 8)) conv=notrunc 2>/dev/null
for command in "run -p and" 'logits --tokens 1,2,3' "perplexity -f $KVCULL_DATA/tokens.txt --json" \
    "eval fidelity -f $KVCULL_DATA/tokens.txt --prompt 12 --gen 4 --kv full" \
    'eval needle --kv full --length 200 --texts 1 --depths 1' \
    'bench --prompt 8 --gen 2' 'verify --only methods --backend cpu --kv full --prompt 8 --gen 2'; do
    fails 3 'position [0-9]*: the logits are not finite.*layer 1, of 0 to 3, is the first' $command -m "$work/nan" -q
done
echo and | kv chat -m "$work/nan" -q --template chatml >"$work/out" 2>"$work/err"
that 'chat ends with 3' [ $? = 3 ]
check_error 'layer 1, of 0 to 3, is the first' chat

# ---- texts, tokens and tensors
fails 3 'none' run -m "$demo" -f "$work/none"
fails 3 'is a directory' run -m "$demo" -f "$work/folder"
fails 3 'none' run -m "$demo" -p 'then the old sailor' -f "$work/none"
that 'every prompt is read before anything is generated' [ ! -s "$work/out" ]
fails 2 'the prompt is empty' run -m "$demo" -p 'then the old sailor' -p ''
that 'and looked at' [ ! -s "$work/out" ]
fails 3 'none' perplexity -m "$demo" -f "$work/none"
fails 3 'has less than two tokens' perplexity -m "$demo" -f "$work/empty"
fails 2 'token ids' logits -m "$demo" --tokens 1,x
fails 2 'token ids' logits -m "$demo" --tokens ''
fails 2 'token ids' logits -m "$demo" --tokens=-1
fails 2 'no token ids' logits -m "$demo" --tokens ' , '
kv logits -m "$demo" --tokens 330 >"$work/out" 2>"$work/err"
that 'a token id out of range is refused' [ $? = 2 ]
check_error '330' 'logits --tokens 330'
kv tokenize -m "$demo" --decode 1,99999 >"$work/out" 2>"$work/err"
that 'a token id out of range cannot be decoded' [ $? -ge 2 ]
check_error '99999' 'tokenize --decode 99999'
echo 1,2,x >"$work/ids"
fails 3 'token ids' logits -m "$demo" --tokens "@$work/ids"
fails 3 'none' logits -m "$demo" --tokens "@$work/none"
fails 2 '--prompt 4: there are 3 tokens' logits -m "$demo" --tokens 1,2,3 --prompt 4
fails 2 '--ctx 2: there are 3 tokens; give a larger --ctx' logits -m "$demo" --tokens 1,2,3 --ctx 2
echo 'then the old sailor' >"$work/four"
fails 2 '--ctx 4: there are 5 tokens' collect -m "$demo" -f "$work/four" -o "$work/out.stats" --ctx 4 -q
fails 2 '--ctx 14: there are 15 tokens' eval fidelity -m "$demo" -f "$work/four" --kv full --gen 10 --ctx 14 -q
ok collect -m "$demo" -f "$work/four" -o "$work/out.stats" --ctx 5 -q
ok eval fidelity -m "$demo" -f "$work/four" --kv full --gen 10 --ctx 15 -q
fails 2 '--length 300: must not exceed --ctx 299' eval needle -m "$demo" --kv full --length 200,300 --ctx 299 -q
fails 2 '--ctx 2: the prompt needs' run -m "$demo" -p 'then the old sailor found' --ctx 2
fails 3 'none' replay --kv full --in "$work/none"
fails 3 'text' replay --kv full --in "$work/text"
fails 3 'layers.0.q' replay --kv full --in "$demo/model.safetensors"
fails 2 'nosuch' chat -m "$demo" --template nosuch

# ---- a text without tokens: this tokenizer knows two characters
cp -r "$demo" "$work/few"
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}' >"$work/few/tokenizer.json"
echo '{}' >"$work/few/tokenizer_config.json"
echo c >"$work/c"
fails 2 'the prompt is empty' run -m "$work/few" -p a -p c -n 1 -q
for command in logits 'eval fidelity --kv full'; do
    fails 3 'c: has no tokens; give a file with text' $command -m "$work/few" -f "$work/c" -q
done
fails 3 'has less than two tokens' perplexity -m "$work/few" -f "$work/c" -q
fails 3 'has 0 tokens: must be more than 0' collect -m "$work/few" -f "$work/c" -o "$work/out.stats" -q
fails 3 'the tokenizer makes no tokens from' eval needle -m "$work/few" --kv full -q

# ---- a chat template that refuses one message, after others
echo "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this') }}{% endif %} {{ m.content }} .{% endfor %}" \
    >"$work/template"
refused='the given chat template, line 1, refuses the conversation: not this'
fails 2 "$refused" run -m "$demo" --chat-template-file "$work/template" -p no -q
fails 2 "$refused" run -m "$demo" --chat-template-file "$work/template" -p yes -p no -n 2 -q
fails 2 "$refused" tokenize -m "$demo" --chat-template-file "$work/template" no

# ---- a policy that does not suit the model is refused when its session is opened
ok mkmodel --shape tiny-gemma2 -o "$work/windows.gguf" -q
windows='positions=cache: layer 0 sees its last 40 positions only'
for command in 'run -p x' 'logits --tokens 5,6' "perplexity --ctx 8 -f $work/ids" 'bench --prompt 8 --gen 1'; do
    fails 2 "$windows" $command -m "$work/windows.gguf" --kv streaming:budget=12,positions=cache -q
done
"$build/tests/cli/make_dump" "$work/dump" 2 40 4 2 8 || exit 1
fails 2 'positions=cache needs a model' replay --kv streaming:budget=8,positions=cache --in "$work/dump"
fails 2 'needs a model: a replay has no hidden states' replay --kv kvzap:budget=9,file=drawn --in "$work/dump"

# ---- backends that do not exist
for backend in rocm ROCm hip HIP metal Metal vulkan Vulkan; do
    fails 4 "'$backend': kvcull has no such backend; use opencl or cpu" run -m "$demo" --backend $backend -p x
done
fails 4 'use opencl or cpu' bench -m "$demo" --backend rocm:1 -q
fails 4 'use opencl or cpu' run -m "$demo" --backend mps -p x
fails 2 'is unknown' run -m "$demo" --backend rock -p x

# ---- bench --ops
fails 2 'need --ops' bench --only norm -m "$demo"
fails 2 'takes no -m' bench --ops -m "$demo"
fails 2 'takes no --kv' bench --ops --kv full --only norm
fails 2 'takes no --prompt' bench --ops --prompt 512,600 --only norm
fails 2 'takes no --math' bench --ops --math fast --only norm
fails 2 'need --ops' bench --entries 4096 -m "$demo"
fails 2 'from 256' bench --ops --entries 12
fails 2 "no operation 'nosuch'" bench --ops --only nosuch -q

# ---- output: nothing may be left half-written
mkdir "$work/target"
for name in '' -; do
    fails 2 '--out' logits -m "$demo" --tokens 1,2,3 --out "$name"
    fails 2 '--out' convert "$demo" --out "$name"
    fails 2 '--out' mkmodel --shape 100m --out "$name"
    fails 2 '--attn' replay --kv full --in "$work/none" --attn "$name"
done
fails 4 'cannot be written\|No space\|no space' logits -m "$demo" --tokens 1,2,3 --out "$work/none/x.safetensors"
fails 4 'target' logits -m "$demo" --tokens 1,2,3 --out "$work/target"
fails 4 'none' convert "$demo" -o "$work/none/x.gguf"
fails 4 'none' convert "$demo" -o "$work/none/x/" --type f16
fails 3 'none: cannot be opened' convert "$work/none" -o "$work/target/x.gguf" --type f16
fails 4 'none/x: cannot be written' replay --kv full --prompt 30 --in "$work/dump" --attn "$work/none/x"
fails 2 'the name is empty' replay --kv full --in "$work/dump" --out ''
fails 4 'none' mkmodel --shape tiny -o "$work/none/x.gguf"
if [ -w /dev/full ]; then
    kv run -m "$demo" -n 5 -q >/dev/full 2>"$work/err"
    that 'a full standard output is 4' [ $? = 4 ]
    check_error 'standard output: cannot be written: No space' 'run >/dev/full'
    kv info methods >/dev/full 2>"$work/err"
    that 'a full standard output is 4' [ $? = 4 ]
    kv run --help >/dev/full 2>"$work/err"
    that 'help to a full disk is 4' [ $? = 4 ]
fi
# If standard output or standard error is closed, the next opened file must not get its number and be written to. (Does
# not use libtool's script, because the shell that reads it could get that number.)
real=$build/.libs/kvcull
[ -x "$real" ] || real=$program
closed() { LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$real" "$@"; }
closed run -m "$demo" -n 5 -q 2>"$work/err" >&-
that 'a closed standard output is 4' [ $? = 4 ]
check_error 'standard output: cannot be written: Bad file' 'run >&-'
if [ -d /proc/self/fd ]; then
    closed tokenize -m "$demo" -f /proc/self/fd/2 >"$work/out" 2>&-
    that 'standard error closed: its number is taken' [ $? = 0 ]
fi
# Files may grow to 64 KiB only, which acts like a full disk.
limited() {
    (ulimit -f 64; trap '' XFSZ; kv "$@" >"$work/out" 2>"$work/err" </dev/null)
    status=$?
    that "a full disk is 4, not $status: $*" [ $status = 4 ]
    check_error 'x\.' "$*"
    nothing_left "$work/target"
}
ids=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "%s%d", i ? "," : "", i }')
limited mkmodel --shape tiny -o "$work/target/x.gguf"
limited convert "$demo" -o "$work/target/x.gguf" --type f32
limited convert "$demo" -o "$work/target/x./" --type f32
limited logits -m "$demo" --tokens "$ids" --out "$work/target/x.safetensors"
finish
