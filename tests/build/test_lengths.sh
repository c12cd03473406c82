#!/bin/sh
# No text file of a checkout but data (texts that tests read, seeds of fuzz targets, pages that are generated) has more than 500 lines (CONTRIBUTING.md, Names).
cd "$top_srcdir" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
long=$(git ls-files | grep -v -E '^(data|docs/man|tests/data|tests/fuzz/seeds|packaging/abi|docs/completions)/|^tests/real/prose.txt|^docs/measured/seeds.md' | while read -r file; do
    [ -f "$file" ] && grep -qI . "$file" && awk -v file="$file" 'END { if (NR > 500) print file ": " NR " lines: must be at most 500" }' "$file"
done)
[ -z "$long" ] || { echo "$long"; exit 1; }
