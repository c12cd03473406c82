#!/bin/sh
# Reports text files of a checkout with more than 500 lines, and fails for one with more than 800 (CONTRIBUTING.md,
# Names). Data does not count: texts for tests, seeds of fuzz targets, generated pages.
cd "$top_srcdir" && git ls-files --error-unmatch .clang-format >/dev/null 2>&1 || { echo "no checkout"; exit 77; }
git ls-files | grep -v -E '^(data|tests/data|tests/fuzz/seeds|packaging/abi)/|^tests/real/prose.txt|^docs/measured/seeds.md' |
    while read -r file; do
        [ -f "$file" ] && grep -qI . "$file" && awk -v file="$file" 'END { if (NR > 500) print file ": " NR " lines" }' "$file"
    done | awk '{ print; if ($2 > 800) { print "    has more than 800 lines: split the file by subject"; long = 1 } } END { exit long }'
