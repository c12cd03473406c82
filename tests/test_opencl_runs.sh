#!/bin/sh
# A whole run with every method on OpenCL is equal to the reference's; the cache of binaries; no driver at all.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
kv verify --backend opencl --only methods --kv full --prompt 3 --gen 1 -q >"$work/out" 2>"$work/err"
if [ $? = 4 ]; then
    cat "$work/err"
    echo 'skipped: no OpenCL device'
    exit 77
fi

ok verify --backend opencl --only methods --prompt 300 --gen 6
has '^Equal to the reference'
ok verify --backend opencl --only methods --kv-type q8_0 --kv full --kv 'snapkv:budget=64' --prompt 300 --gen 4
ok verify --backend opencl --only methods --kv-type f32 --kv full --prompt 600 --gen 4 --chunk 70
ok info backends
has 'fma yes, denormals yes'
narrow
ok info backends --json
that 'devices are listed' [ -n "$(json backends.2.devices.0)" ]
kv run -m "$demo" --backend opencl -p 'the needle' -n 12 -q >"$work/opencl" 2>/dev/null
kv run -m "$demo" --backend ref -p 'the needle' -n 12 -q >"$work/ref" 2>/dev/null
that 'an answer' [ -s "$work/opencl" ]
that 'the same answer' cmp -s "$work/opencl" "$work/ref"

# The cache of binaries: made, used, and made again when it is not whole.
mkdir "$work/cache"
XDG_CACHE_HOME=$work/cache KVCULL_OPENCL_CACHE=yes
export XDG_CACHE_HOME KVCULL_OPENCL_CACHE
short='verify --backend opencl --only methods --kv full --prompt 5 --gen 1 -q'
ok $short
file=$(ls "$work/cache/kvcull/"opencl-*.bin)
that 'one binary, nothing else' [ "$(ls "$work/cache/kvcull" | wc -l)" = 1 ]
sum=$(cksum <"$file")
head -c 1000 "$file" >"$work/cut" && cat "$work/cut" >"$file"
ok $short
that 'a file cut short is made again' [ "$(wc -c <"$file")" -gt 1000 ]
printf x | dd of="$file" bs=1 seek=500 conv=notrunc 2>/dev/null
kv $short >"$work/a" 2>&1 &
ok $short
wait $!
that 'two at once, one of a bad file' [ $? = 0 ]
that 'nothing beside it' [ "$(ls "$work/cache/kvcull" | wc -l)" = 1 ]
unset KVCULL_OPENCL_CACHE

OCL_ICD_VENDORS=$work/none fails 4 'no device here' verify --backend opencl --only methods --kv full -q
kv run -m "$demo" --backend opencl --math fast -p 'the one the two the three the four the five the six the seven the' \
    -n 3 >"$work/out" 2>"$work/err"
that 'CLBlast, or one line that there is none' [ $? = 0 -o "$(grep -c CLBlast "$work/err")" = 1 ]
finish
