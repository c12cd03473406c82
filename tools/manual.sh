#!/bin/sh
# manual.sh - writes what the program makes from its own tables: the manual pages, docs/methods.md and the README's lists
# of weight types and methods. tools/manual.sh PROGRAM SOURCE FOLDER writes FOLDER/docs/man/*.1,
# FOLDER/docs/man/kvcull-methods.7, FOLDER/docs/methods.md, and FOLDER/README.md, which is SOURCE/README.md with the lists
# put between their markers.
set -eu
program=$1
source=$2
folder=$3
mkdir -p "$folder/docs/man"
# The words in front of the summaries, from a help text's list under the given heading.
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\) .*/\1/p"; }
"$program" --manual >"$folder/docs/man/kvcull.1"
for command in $("$program" --help | listed Commands); do
    "$program" "$command" --manual >"$folder/docs/man/kvcull-$command.1"
done
for task in $("$program" eval --help | listed Tasks); do
    "$program" eval "$task" --manual >"$folder/docs/man/kvcull-eval-$task.1"
done
"$program" info methods --man >"$folder/docs/man/kvcull-methods.7"
"$program" info methods --markdown >"$folder/docs/methods.md"

# The page's first table, its links led into the page.
sed -n '/^| method |/,/^$/s/](#/](docs\/methods.md#/p; /^| method |/{p;n;p;}' "$folder/docs/methods.md" >"$folder/methods.part"
# The manual's list of weight types, as GGUF writes their names.
sed -n '/^The matrices of models are read/{n;p;}' "$folder/docs/man/kvcull.1" | tr a-z A-Z | fold -s -w 120 |
    sed 's/ *$//' >"$folder/types.part"
for list in methods types; do
    for marker in begin end; do
        grep -q "^<!-- $list: $marker" "$source/README.md" ||
            { echo "README.md has no line <!-- $list: $marker" >&2; exit 1; }
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
    }' "$source/README.md" >"$folder/README.part"
rm "$folder/methods.part" "$folder/types.part"
mv "$folder/README.part" "$folder/README.md"
