#!/bin/sh
# verify, bench and eval: small runs of each, and what they print.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
OCL_ICD_VENDORS=$work/none # test_opencl_runs.sh is about OpenCL
export OCL_ICD_VENDORS

ok verify --only operations --json -q
that 'every backend is equal' [ "$(json equal)" = true ]
that 'operations are compared' [ "$(json rows.0.kind)" = operation ]
that 'values were compared' [ "$(json rows.0.values)" -gt 0 ]
ok verify --only methods --prompt 130 --gen 6
has '^Equal to the reference'
for method in full window streaming snapkv morphkv 'morphkv:budget=.*,fusion=max' 'snapkv:.*morphkv:'; do
    has " [0-9a-f]\{16\}  $method"
done
narrow
ok verify --only methods --kv 'morphkv:budget=20,window=8' --prompt 50 --gen 4 --json -q
that 'policies as given' [ "$(json rows.0.name)" = 'morphkv:budget=20,window=8' ]
that 'one prompt and four steps' [ "$(json rows.0.cases)" = 5 ]
fails 2 'kv nosuch' verify --kv nosuch -q --backend cpu
kv verify --backend nosuch -q >"$work/out" 2>"$work/err"
that 'a backend that is not there' [ $? -ge 2 ]
check_error nosuch 'verify --backend nosuch'

mkdir "$work/room"
TMPDIR=$work/room
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
nothing_left "$work/room"
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
