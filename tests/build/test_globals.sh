#!/bin/sh
# The library has no global variables except constant tables and those for signal handlers.
library=$top_builddir/.libs/libkvc.a
[ -z "$SANITIZE_FLAGS" ] || { echo "elsewhere: ./dev check --plain runs this; sanitizers add variables"; exit 77; }
command -v "${OBJDUMP-objdump}" >/dev/null && [ -e "$library" ] || { echo "no objdump or no $library"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
${OBJDUMP-objdump} -t "$library" | awk '/ O / && NF > 4 { print $(NF - 2), $NF }' >"$work/objects"
grep -q 'ro.* kvc_backend_list$' "$work/objects" || { echo "no tables found in $library"; exit 1; }
# Signal handlers can use only variables: the two lists of models/files/held_files.c, and no others.
[ "$(grep -cE '^\.bss kvc_(written|mapped)_files$' "$work/objects")" = 2 ] || { echo "not two lists for signals"; exit 1; }
# nvcc adds variables: those of the stubs that launch kernels, and the kernels themselves.
grep -vE '^\.(rodata|data\.rel\.ro)|^\.bss kvc_(written|mapped)_files$|__device_stub__|__cudaFatCubinHandle|__fatDeviceText|nvFatBin|nv_fatbin' "$work/objects" && exit 1
exit 0
