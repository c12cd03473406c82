#!/bin/sh
# manual.sh - writes what the program makes from its own tables: the manual pages, the methods' pages and the README's
# lists of weight types, families and methods, and completions for shells. tools/manual.sh PROGRAM SOURCE FOLDER writes
# FOLDER/docs/man, FOLDER/docs/completions, FOLDER/docs/methods.md, FOLDER/docs/methods, and FOLDER/README.md,
# FOLDER/docs/adding-a-family.md and FOLDER/docs/serve.md, which are those of SOURCE with the lists put between their
# markers.
set -eu
program=$1
source=$2
folder=$3
mkdir -p "$folder/docs/man" "$folder/docs/methods"
rm -f "$folder"/docs/man/*.[17] "$folder"/docs/methods/*.md # pages of what is no more there
# The words in front of the summaries, from a help text's list under the given heading.
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\) .*/\1/p"; }
"$program" --manual >"$folder/docs/man/kvcull.1"
for command in $("$program" --help | listed Commands); do
    "$program" "$command" --manual >"$folder/docs/man/kvcull-$command.1"
done
for task in $("$program" eval --help | listed "With options of their own"); do
    "$program" eval "$task" --manual >"$folder/docs/man/kvcull-eval-$task.1"
done
"$program" info methods --man >"$folder/docs/man/kvcull-methods.7"
"$program" info methods --markdown >"$folder/docs/methods.md"

for method in $(sed -n 's|^.*](methods/\([a-z0-9-]*\)\.md).*|\1|p' "$folder/docs/methods.md"); do
    "$program" info methods "$method" --man >"$folder/docs/man/kvcull-method-$method.7"
    "$program" info methods "$method" --markdown >"$folder/docs/methods/$method.md"
done

# The page's first table, its links as they are seen from the README.
sed -n '/^| method |/,/^$/s/](methods/](docs\/methods/p; /^| method |/{p;n;p;}' "$folder/docs/methods.md" >"$folder/methods.part"
# The manual's list of weight types, as GGUF writes their names.
sed -n '/^The matrices of models are read/{n;p;}' "$folder/docs/man/kvcull.1" | tr a-z A-Z | fold -s -w 120 |
    sed 's/ *$//' >"$folder/types.part"
# The fields of requests.
"$program" serve --fields >"$folder/fields.part"
# Families: the README has them without what sets each apart.
"$program" info families --markdown >"$folder/families.part"
awk -F ' *[|] *' '{ print NR == 2 ? "|---|---|---|" : "| " $2 " | " $3 " | " $4 " |" }' "$folder/families.part" \
    >"$folder/models.part"
# SOURCE/FILE with the lists named put between their markers: FOLDER/FILE.
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
fill README.md methods types models
fill docs/adding-a-family.md families
fill docs/serve.md fields
rm "$folder/methods.part" "$folder/types.part" "$folder/families.part" "$folder/models.part" "$folder/fields.part"
sh "$source/tools/completions.sh" "$program" "$folder/docs/completions"
