#!/bin/sh
# unused.sh FROM TO - copies objects of instruction sets that this CPU lacks from one build folder to another that has
# other flags. Compiling each of them takes half a minute, and nothing on this machine can run them.
[ -r /proc/cpuinfo ] || exit 0
from=$1 to=$2 unused=
grep -qw avx512f /proc/cpuinfo || unused="$unused avx512 avx512vnni amx"
grep -qw avx512_vnni /proc/cpuinfo || unused="$unused avx512vnni amx"
grep -qw amx_int8 /proc/cpuinfo || unused="$unused amx"
grep -qw avx_vnni /proc/cpuinfo || unused="$unused avx2vnni"
for path in $unused; do
    (cd "$from" && find backends/cpu/simd -name "libcpu_${path}_la-*.o" -o -name "libcpu_${path}_la-*.lo") |
        while read -r object; do
            folder=$to/${object%/*}
            mkdir -p "$folder/.deps" || exit 1
            # make would compile objects that are older than these files of automake.
            for stamp in "$folder/.dirstamp" "$folder/.deps/.dirstamp"; do [ -e "$stamp" ] || : >"$stamp"; done
            cp "$from/$object" "$to/$object" || exit 1
        done
done
