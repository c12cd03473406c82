#!/bin/sh
# manual.sh - writes the manual pages and docs/methods.md, which the program makes from its own tables:
# tools/manual.sh PROGRAM FOLDER writes FOLDER/man/*.1, FOLDER/man/kvcull-methods.7 and FOLDER/methods.md.
set -eu
program=$1
folder=$2
mkdir -p "$folder/man"
# The words in front of the summaries, from a help text's list under the given heading.
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\) .*/\1/p"; }
"$program" --manual >"$folder/man/kvcull.1"
for command in $("$program" --help | listed Commands); do
    "$program" "$command" --manual >"$folder/man/kvcull-$command.1"
done
for task in $("$program" eval --help | listed Tasks); do
    "$program" eval "$task" --manual >"$folder/man/kvcull-eval-$task.1"
done
"$program" info methods --man >"$folder/man/kvcull-methods.7"
"$program" info methods --markdown >"$folder/methods.md"
