#!/bin/sh
# Whole runs with every method on OpenCL equal the reference's; the cache of binaries; a machine without a driver.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
kv verify --backend opencl --only methods --kv full --prompt 3 --gen 1 -q >"$work/out" 2>"$work/err"
if [ $? = 4 ] && grep -q 'no device here\| cannot be exact: \|not in this build' "$work/err"; then
    cat "$work/err"
    echo 'skipped: no OpenCL device that can be exact'
    exit 77
fi

# 64 steps with every method: the hashes stored for ref.
some= least=40
sanitized && least=7 some='--kv full --kv h2o:budget=66 --kv cake:budget=66 --kv quest:budget=66
    --kv fastkv:budget=66,tsp=48 --kv take:budget=66,chunk=64,probe=8 --kv duo:file=every-other,sinks=4,recent=40'
ok verify --backend opencl --only methods --against stored --json -q $some # every operation has its own test
that 'equal' [ "$(json equal)" = true ]
that 'to what is stored' [ "$(grep -c '"against": "stored"' "$work/out")" -ge $least ]
that 'and to that only' [ "$(grep -c '"against": "ref"' "$work/out")" = 0 ]
# Fewer methods in the comparisons with ref below, because all methods with all models take minutes.
in_full || sanitized || some='--kv full --kv h2o:budget=66 --kv cake:budget=66 --kv quest:budget=66 --kv snapkv:budget=66,window=8
    --kv fastkv:budget=66,tsp=48 --kv take:budget=66,chunk=64,probe=8 --kv duo:file=every-other,sinks=4,recent=40'
# Prompts in chunks and other types of entries, compared with ref.
rows=300
sanitized && rows=100
ok verify --backend opencl --only methods --prompt $rows --gen 6 $some
has '^Equal to the reference'
ok verify --backend opencl --only methods --math int8 --against stored --kv full --kv h2o:budget=66 --kv quest:budget=66
ok verify --backend opencl --only methods --kv-type q8_0 --kv full --kv 'snapkv:budget=64' --prompt 300 --gen 4
ok verify --backend opencl --only methods --kv-type f32 --kv full --prompt 600 --gen 4 --chunk 70
shapes='tiny-gemma2 tiny-gemma3 tiny-gpt-oss' # soft caps; two ropes; sinks
families='qwen2-moe mixtral/model.gguf gpt-oss qwen2-moe-dense cohere-plus phi2-norms stablelm-norms qwen35
    qwen3-next/model.gguf'
in_full || families='qwen2-moe gpt-oss qwen35 phi2-norms'
sanitized && shapes=tiny-gemma3 families='qwen2-moe gpt-oss' # drivers compile kernels for each model
for shape in $shapes; do
    ok mkmodel --shape $shape --type q8_0 -o "$work/$shape.gguf" -q
    # shellcheck disable=SC2086
    ok verify --backend opencl --only methods --prompt 90 --gen 3 -m "$work/$shape.gguf" $some
    KVCULL_OPENCL_SHAPE=gpu ok verify --backend opencl --only methods --kv full --kv snapkv:budget=40 \
        --kv h2o:budget=40 --kv quest:budget=40 --kv topk:budget=40 --prompt 90 --gen 3 -m "$work/$shape.gguf"
done
# Experts: only the device knows which experts a row uses. Also layers without experts, and norms with separate weights
# for each head.
for shape in cpu gpu; do
    KVCULL_OPENCL_SHAPE=$shape
    export KVCULL_OPENCL_SHAPE
    for family in $families; do
        ok verify --backend opencl --only methods -m "$source/tests/data/golden/$family" --kv full \
            --kv snapkv:budget=32,window=8 --kv fastkv:budget=32,window=8 --prompt 70 --gen 4
        has '^Equal to the reference'
    done
done
unset KVCULL_OPENCL_SHAPE
ok info backends
has 'fma yes, denormals yes'
narrow
ok info backends --json
that 'devices are listed' [ -n "$(json backends.2.devices.0)" ]
kv run -m "$demo" --backend opencl -p 'the needle' -n 12 -q >"$work/opencl" 2>/dev/null
kv run -m "$demo" --backend ref -p 'the needle' -n 12 -q >"$work/ref" 2>/dev/null
that 'an answer' [ -s "$work/opencl" ]
that 'the same answer' cmp -s "$work/opencl" "$work/ref"

# The counts of bytes read from the cache equal those of ref, also for methods that choose what to read.
for backend in ref opencl; do
    kv bench -m "$demo" --backend $backend --kv full --kv quest:budget=64 --kv sparq:budget=64 --kv rocketkv:budget=64 \
        --kv topk:budget=64 --prompt 300 --gen 3 --repeat 1 --json -q 2>/dev/null |
        grep '"kv"\|bytes_per_step' >"$work/read.$backend"
done
that 'bytes read' [ "$(grep -c cache_read_bytes "$work/read.ref")" = 5 ]
that 'the same bytes read' cmp -s "$work/read.ref" "$work/read.opencl"

# The cache of compiled kernels: created, used, and created again when it is damaged.
mkdir "$work/cache"
XDG_CACHE_HOME=$work/cache KVCULL_OPENCL_CACHE=yes
export XDG_CACHE_HOME KVCULL_OPENCL_CACHE
short='verify --backend opencl --only methods --kv full --prompt 5 --gen 1 -q'
ok $short
file=$(ls "$work/cache/kvcull/"opencl-*.bin)
that 'one binary, nothing else' [ "$(ls "$work/cache/kvcull" | wc -l)" = 1 ]
head -c 1000 "$file" >"$work/cut" && cat "$work/cut" >"$file"
kv $short >"$work/a" 2>&1 &
ok $short
wait $!
that 'two at once, of a file cut short' [ $? = 0 ]
that 'it is made again' [ "$(wc -c <"$file")" -gt 1000 ]
if in_full; then # making a binary takes PoCL half a minute
    printf x | dd of="$file" bs=1 seek=500 conv=notrunc 2>/dev/null
    ok $short
fi
that 'nothing beside it' [ "$(ls "$work/cache/kvcull" | wc -l)" = 1 ]
unset KVCULL_OPENCL_CACHE

# A device with too little memory: the error gives the needed memory, and a context length that would fit.
little() {
    KVCULL_OPENCL_MEMORY=$1
    export KVCULL_OPENCL_MEMORY
    shift
    "$@"
    set -- $?
    unset KVCULL_OPENCL_MEMORY
    return $1
}
seq 1 3000 | tr '\n' ' ' | head -c 6000 >"$work/long"
little 2000000 fails 4 'the weights need 3.3 MiB of its 1.9 MiB; a type of at most' run -m "$demo" --backend opencl -p x
little 12000000 fails 4 'tokens need .* MiB in all; a context of [1-9]' perplexity -m "$demo" --backend opencl -q \
    --kv-type f32 --chunk 256 -f "$work/long"
fewer=$(sed -n 's/.*a context of \([0-9]*\) would fit.*/\1/p' "$work/err")
method=$(sed -n 's/.*would fit, or --kv \([a-z:=0-9]*\).*/\1/p' "$work/err")
that 'a context and a method would fit' [ -n "$fewer" -a -n "$method" ]
ids=$(awk -v n="$fewer" 'BEGIN { for (i = 0; i < n; i++) printf "%s%d", i ? "," : "", i % 300 }')
little 12000000 ok logits -m "$demo" --backend opencl --kv-type f32 --chunk 256 --tokens "$ids" --out "$work/x.safetensors"
little 12000000 ok perplexity -m "$demo" --backend opencl --kv-type f32 --chunk 256 --kv "$method" -f "$work/long" -q
little 9000000 fails 4 '^kvcull eval needle: opencl ([^:]*): no memory for' eval needle -m "$demo" --backend opencl \
    --kv full --length 2000 --texts 1 --depths 1 -q
little 6500000 kv run -m "$demo" --backend opencl --kv-type f32 --ignore-eos -p number -n 3000 -q \
    >"$work/out" 2>"$work/err"
that 'no memory in the middle is 4' [ $? = 4 ]
has 'tokens need .* in all; a context of' "$work/err"

# Kernels that do not compile: the message names the file with the compiler's log. A device lost in the middle.
(KVCULL_OPENCL_SHAPE=broken; export KVCULL_OPENCL_SHAPE; kv run -m "$demo" --backend opencl -p x) \
    >"$work/out" 2>"$work/err"
that 'kernels that do not compile are 4' [ $? = 4 ]
has '^kvcull run: opencl: the kernels do not compile for .*opencl-build.log$' "$work/err"
that 'in one line' [ "$(wc -l <"$work/err")" = 1 ]
that 'the log is kept' [ -s "$(sed -n 's/.* \([^ ]*opencl-build.log\).*/\1/p' "$work/err")" ]
# If all backends are compared, a backend whose kernels do not compile is left out, and a message says so.
KVCULL_OPENCL_SHAPE=broken
export KVCULL_OPENCL_SHAPE
kv verify --backend opencl --only operations --effort 0 -q >"$work/out" 2>"$work/err"
that 'asked for by name it is 4' [ $? = 4 ]
has '^kvcull verify: opencl: the kernels do not compile' "$work/err"
that 'in one line, too' [ "$(wc -l <"$work/err")" = 1 ]
ok verify --only operations --effort 0
has '^opencl: not compared: the kernels do not compile'
has '^Equal to the reference'
ok verify --only operations --effort 0 --json -q
that 'left out' [ "$(json not_compared.0.backend)" = opencl ]
that 'for a reason' [ -n "$(json not_compared.0.why | grep '^the kernels do not compile')" ]
that 'others are compared' [ "$(grep -c '"backend": "opencl"' "$work/out")" = 1 ]
unset KVCULL_OPENCL_SHAPE
(KVCULL_OPENCL_LOSE=300; export KVCULL_OPENCL_LOSE; kv run -m "$demo" --backend opencl -p x -n 50 -q) \
    >"$work/out" 2>"$work/err"
that 'a lost device is 4' [ $? = 4 ]
check_error 'lost' 'run on a device that is lost'
(KVCULL_OPENCL_LOSE=800; export KVCULL_OPENCL_LOSE; kv run -m "$demo" --backend opencl -p x -n 50 -q --kv morphkv:budget=40) \
    >"$work/out" 2>"$work/err"
that 'one lost among evictions too' [ $? = 4 ]
check_error 'lost' 'morphkv on a device that is lost'
fails 4 "no device's name contains 'nosuch'" run -m "$demo" --backend opencl:nosuch -p x
fails 4 'no device 7' run -m "$demo" --backend opencl:7 -p x

# Every operation compared with the device's measured limits.
kv bench --ops --backend opencl --only mix_mean --beside ref --json -q >"$work/out" 2>"$work/err"
that 'it ends' [ $? -le 1 ]
that 'rooflines' [ "$(json rooflines.fma_flops_per_second)" != null ]
that 'one operation' [ "$(json operations.0.name)" = mix_mean ]

OCL_ICD_VENDORS=$work/none fails 4 'no device here; a driver is needed' verify --backend opencl --only methods --kv full -q
# PoCL has no device without a folder for its cache; this is a different case.
kv info backends | grep -q '^opencl:0: .*Portable Computing Language' &&
    XDG_CACHE_HOME=$work/err POCL_CACHE_DIR=$work/err/none fails 4 'no device here; PoCL is installed.* XDG_CACHE_HOME' \
        run -m "$demo" --backend opencl -p x
kv run -m "$demo" --backend opencl --math fast -p 'the one the two the three the four the five the six the seven the' \
    -n 3 >"$work/out" 2>"$work/err"
that 'CLBlast, or one line that there is none' [ $? = 0 -o "$(grep -c CLBlast "$work/err")" = 1 ]
# A device that cannot be exact is refused unless --math=fast is requested.
for lack in 'fma:fused multiply-add is not one rounding' 'denormals:no denormal numbers'; do
    KVCULL_OPENCL_LACKS=${lack%%:*}
    export KVCULL_OPENCL_LACKS
    fails 4 "cannot be exact: .* is .*, should be .* (${lack#*:}); use --math fast or cpu" run -m "$demo" --backend opencl -p x
    ok verify --only operations --effort 0
    has "^opencl: not compared: .* cannot be exact: .* (${lack#*:})"
    kv run -m "$demo" --backend opencl --math fast -p the -n 3 -q >"$work/out" 2>"$work/err"
    that "$lack: fast is not refused" [ $? = 0 -o "$(grep -c CLBlast "$work/err")" = 1 ]
    unset KVCULL_OPENCL_LACKS
done
finish
