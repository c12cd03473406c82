#!/bin/sh
# manual.sh - writes the pages made from the program's own tables: manual pages, pages of the methods, tables of
# families, weight types and request fields, and shell completions. tools/manual.sh PROGRAM SOURCE FOLDER writes
# FOLDER/docs/man, FOLDER/docs/completions, FOLDER/docs/reference/methods.md and FOLDER/docs/reference/methods. It
# copies SOURCE/docs/reference/models.md and SOURCE/docs/reference/server.md to FOLDER and inserts the tables between
# their markers.
set -eu
program=$1
source=$2
folder=$3
mkdir -p "$folder/docs/man" "$folder/docs/reference/methods"
rm -f "$folder"/docs/man/*.[17] "$folder"/docs/reference/methods/*.md # obsolete pages
# Prints the names in a help text's list under the given heading.
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\) .*/\1/p"; }
"$program" --manual >"$folder/docs/man/kvcull.1"
for command in $("$program" --help | listed Commands); do
    "$program" "$command" --manual >"$folder/docs/man/kvcull-$command.1"
done
for task in $("$program" eval --help | listed "With options of their own"); do
    "$program" eval "$task" --manual >"$folder/docs/man/kvcull-eval-$task.1"
done
"$program" info methods --man >"$folder/docs/man/kvcull-methods.7"
"$program" info methods --markdown >"$folder/docs/reference/methods.md"

for method in $(sed -n 's|^.*](methods/\([a-z0-9-]*\)\.md).*|\1|p' "$folder/docs/reference/methods.md"); do
    "$program" info methods "$method" --man >"$folder/docs/man/kvcull-method-$method.7"
    "$program" info methods "$method" --markdown >"$folder/docs/reference/methods/$method.md"
done

# The manual's list of weight types, in upper case as in GGUF.
sed -n '/^\.Ss Weight types/{n;n;p;}' "$folder/docs/man/kvcull.1" | tr a-z A-Z | fold -s -w 120 |
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
sh "$source/tools/completions.sh" "$program" "$folder/docs/completions"
