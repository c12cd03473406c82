#!/bin/sh
# docs/pictures/context.svg and the table of docs/measured/context.md equal the output of tools/chart_context.py for
# docs/measured/context.json; the picture is well-formed, and its labels do not overlap.
. "${top_srcdir:-.}/tests/cli/lib.sh"
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
chart=$source/tools/chart_context.py data=$source/docs/measured/context.json

python3 "$chart" svg "$data" >"$work/context.svg" 2>"$work/err"
that 'the picture is old: tools/chart_context.py svg' cmp -s "$work/context.svg" "$source/docs/pictures/context.svg"
python3 - "$work/context.svg" >"$work/overlaps" 2>&1 <<'END'
import sys
import xml.etree.ElementTree as tree

texts = [(node.get("class"), float(node.get("x")), float(node.get("y")))
         for node in tree.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}text")]
labels = [(x, y) for kind, x, y in texts if kind == "label"]
assert len(labels) >= 8, labels
for i, (x, y) in enumerate(labels):
    for other_x, other_y in labels[i + 1:]:
        if x == other_x and abs(y - other_y) < 13:
            print("labels overlap at", x, y, other_y)
END
that "the picture: $(head -n 1 "$work/overlaps")" [ ! -s "$work/overlaps" ]

python3 "$chart" table "$data" >"$work/table" 2>"$work/err"
sed -n '/^| context |/,/^$/p' "$source/docs/measured/context.md" | sed '/^$/d' >"$work/committed"
that 'the table is old: tools/chart_context.py table' cmp -s "$work/table" "$work/committed"
that 'the page names the machine' grep -q "$(sed -n 's/^ "machine": "\(.*\)",$/\1/p' "$data")" "$source/docs/measured/context.md"
finish
