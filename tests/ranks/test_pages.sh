#!/bin/sh
# Each rank has only its part of the model's file in memory, plus samples that detect different files. Uses tmpfs, which
# has small pages; on other file systems a kernel may map two MiB around each sample.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || { echo 'there is no tmpfs at /dev/shm'; exit 77; }
${CC:-cc} -shared -fPIC -O2 -D_GNU_SOURCE "${top_srcdir:-.}/tests/ranks/mapped_pages.c" -o "$work/pages.so" -ldl \
    2>/dev/null || { echo 'no shared library can be built to look at pages'; exit 77; }
folder=$(mktemp -d /dev/shm/kvcull.XXXXXX) || { echo 'nothing can be written to /dev/shm'; exit 77; }
trap 'rm -rf "$work" "$folder"' EXIT
model=$folder/model.gguf
ok mkmodel --shape 100m --type q8_0 -o "$model" -q
[ -s "$model" ] || { echo 'there is no room in /dev/shm'; exit 77; }

# three samples of each of its matrices; up to 64 KiB may be mapped for each
samples=$((12 * 7 * 3 * 64))
MAPPED_FILE=$model
UCX_MEM_MMAP_HOOK_MODE=none # UCX, used by some builds of MPI, replaces munmap after our own replacement
export MAPPED_FILE UCX_MEM_MMAP_HOOK_MODE
for how in tensor=2 tensor=4 pipeline=2 tensor=2,pipeline=2 'pipeline=2 --share 3,1'; do
    # shellcheck disable=SC2086
    ok info "$model" --ranks $how --json
    most=0 count=0
    while bytes=$(json "ranks.$count.weight_bytes" 2>/dev/null) && [ -n "$bytes" ] && [ "$bytes" != null ]; do
        [ "$bytes" -le $most ] || most=$bytes
        count=$((count + 1))
    done
    rm -f "$model".[0-9]*
    # shellcheck disable=SC2086
    LD_PRELOAD=$work/pages.so same run "$count" run -m "$model" -p 'once upon a time' -n 2 -q --threads 1 --ranks $how
    that "$how: $count ranks had the file mapped" [ "$(cat "$model".[0-9]* | wc -l)" = "$count" ]
    whole=$(awk 'NR == 1 { print $2 }' "$model".[0-9]*)
    largest=$(sort -n "$model".[0-9]* | awk 'END { print $1 }')
    that "$how: $largest of $whole kB in memory; its weights are $((most / 1024))" \
        [ "$largest" -le $((most / 1024 + samples)) ]
done
that 'a rank that read all would be seen' [ "$whole" -gt $((most / 1024 + samples / 2)) ]
finish
