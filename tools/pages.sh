#!/bin/sh
# pages.sh - writes the tracked files that come from the program's own tables: the methods' pages, their types for Python,
# and the tables of families, weight types and request fields. tools/pages.sh PROGRAM SOURCE FOLDER writes
# FOLDER/docs/reference/methods.md, FOLDER/docs/reference/methods and, if there is a python3,
# FOLDER/python/kvcull/policy.pyi. It copies SOURCE/docs/reference/models.md and SOURCE/docs/reference/server.md to FOLDER
# and inserts the tables between their markers. `make pages` calls it.
set -eu
program=$1
source=$2
folder=$3
mkdir -p "$folder/docs/reference/methods"
rm -f "$folder"/docs/reference/methods/*.md # obsolete pages
"$program" info methods --markdown >"$folder/docs/reference/methods.md"
for method in $(sed -n 's|^.*](methods/\([a-z0-9-]*\)\.md).*|\1|p' "$folder/docs/reference/methods.md"); do
    "$program" info methods "$method" --markdown >"$folder/docs/reference/methods/$method.md"
done

if command -v "${PYTHON:-python3}" >/dev/null; then
    mkdir -p "$folder/python/kvcull"
    "$program" info methods --json >"$folder/methods.part"
    "${PYTHON:-python3}" "$source/tools/policy_types.py" <"$folder/methods.part" >"$folder/types.part"
    mv "$folder/types.part" "$folder/python/kvcull/policy.pyi"
    rm "$folder/methods.part"
fi

# The manual's list of weight types, in upper case as in GGUF.
"$program" --manual | sed -n '/^\.Ss Weight types/{n;n;p;}' | tr a-z A-Z | fold -s -w 120 |
    sed 's/ *$//' >"$folder/types.part"
"$program" serve --fields >"$folder/fields.part"
"$program" info families --markdown >"$folder/families.part"
# Writes FOLDER/FILE: SOURCE/FILE with the named lists between their markers.
fill() {
    file=$1
    shift
    for list in "$@"; do
        for marker in begin end; do
            grep -q "^<!-- $list: $marker" "$source/$file" ||
                { echo "$file has no line <!-- $list: $marker" >&2; exit 1; }
        done
        [ -s "$folder/$list.part" ] || { echo "the list of $list is empty" >&2; exit 1; }
    done
    awk -v folder="$folder" '
        /^<!-- [a-z]*: end/ { within = 0 }
        !within { print }
        /^<!-- [a-z]*: begin/ {
            within = 1
            part = folder "/" substr($2, 1, length($2) - 1) ".part"
            while ((getline line <part) > 0) print line
        }' "$source/$file" >"$folder/filled.part"
    mv "$folder/filled.part" "$folder/$file"
}
fill docs/reference/models.md families types
fill docs/reference/server.md fields
rm "$folder/types.part" "$folder/families.part" "$folder/fields.part"
