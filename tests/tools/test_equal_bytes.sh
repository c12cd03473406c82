#!/bin/sh
# tools/equal_bytes.py and tools/chart_bytes.py: the entries that each type has in lists of equal bytes, results of the
# bundled model, errors. docs/pictures/bytes.svg and the tables of docs/measured/bytes.md equal the output of
# tools/chart_bytes.py for docs/measured/bytes.json.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
PYTHONDONTWRITEBYTECODE=yes
export PYTHONDONTWRITEBYTECODE
tool=$source/tools/equal_bytes.py chart=$source/tools/chart_bytes.py
wrong() { # STATUS PATTERN ARGUMENTS...
    want=$1 pattern=$2
    shift 2
    python3 "$tool" --kvcull "$program" "$@" >"$work/out" 2>"$work/err"
    that "exit $want of: $*" [ $? = "$want" ]
    that "one line of error: $*" [ "$(wc -l <"$work/err")" = 1 ]
    has "^equal_bytes.py: .*$pattern" "$work/err"
}
wrong 2 'MODEL and FOLDER' "$demo"
wrong 2 'no list of these sizes' --kib 1 "$demo" "$work/small"

python3 "$tool" --kvcull "$program" --length 200 --texts 1 --depths 2 --kib 8,16 --methods snapkv,rocketkv "$demo" \
    "$work/runs" >"$work/out" 2>"$work/err"
that 'equal_bytes' [ $? = 0 ]
that 'a file for each type' [ "$(find "$work/runs" -name '[0-9].json' | wc -l)" = 4 ]
python3 "$tool" --collect "$work/runs" >"$work/json"
that '--collect' [ $? = 0 ]
python3 "$chart" table "$work/json" >"$work/table"
# A key and a value of 32 channels have 128, 68, 52 and 36 bytes. Lists hold whole blocks of 32 entries, at most 200.
sed -n 's/^| `snapkv` | \([0-9]*\) |/\1/p' "$work/table" | sed 's/[^ ]*, [^ ]* (\([0-9]*\))/\1/g; s/[|]//g; s/  */ /g; s/ $//' >"$work/entries"
printf '8 64 96 128 192\n16 128 192 192 192\n' >"$work/expected"
that 'entries of equal bytes' cmp -s "$work/entries" "$work/expected"
that 'rocketkv has no rotated keys' [ "$(grep -c '^| `rocketkv` | .* | .* | .* |  |$' "$work/table")" = 2 ]
python3 "$chart" svg "$work/json" >"$work/svg"
that 'a picture' python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$work/svg"

data=$source/docs/measured/bytes.json
python3 "$chart" svg "$data" >"$work/bytes.svg"
that 'the picture is old: tools/chart_bytes.py svg' cmp -s "$work/bytes.svg" "$source/docs/pictures/bytes.svg"
python3 "$chart" table "$data" >"$work/table"
sed -n '/^## .*/,$p' "$source/docs/measured/bytes.md" >"$work/committed"
that 'the page has tables' [ -s "$work/committed" ]
that 'the tables are old: tools/chart_bytes.py table' cmp -s "$work/table" "$work/committed"
finish
