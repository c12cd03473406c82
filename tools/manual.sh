#!/bin/sh
# manual.sh - writes manual pages and shell completions from the program's own tables; `make` calls it.
# tools/manual.sh PROGRAM SOURCE FOLDER writes FOLDER/docs/man and FOLDER/docs/completions. If the program does not run
# on this machine, as in a cross build, copies the pages from SOURCE, which a release tarball has. If SOURCE has no
# pages, prints that they are left out.
set -eu
program=$1
source=$2
folder=$3
if ! "$program" --version >/dev/null 2>&1; then
    if [ ! -e "$source/docs/man/kvcull.1" ]; then
        echo "$program does not run on this machine: manual pages and completions are left out (a release's tarball has them)"
    elif [ "$(cd "$source" && pwd)" != "$(cd "$folder" && pwd)" ]; then
        mkdir -p "$folder/docs"
        cp -R "$source/docs/man" "$source/docs/completions" "$folder/docs"
    fi
    exit 0
fi
man=$folder/docs/man
mkdir -p "$man"
rm -f "$man"/*.[17] # obsolete pages
# Prints the names in a help text's list under the given heading.
listed() { sed -n "/^$1:\$/,/^\$/s/^  \([a-z0-9-][a-z0-9-]*\) .*/\1/p"; }
"$program" --manual >"$man/kvcull.1"
for command in $("$program" --help | listed Commands); do
    "$program" "$command" --manual >"$man/kvcull-$command.1"
done
for task in $("$program" eval --help | listed "With options of their own"); do
    "$program" eval "$task" --manual >"$man/kvcull-eval-$task.1"
done
"$program" info methods --man >"$man/kvcull-methods.7"
for method in $("$program" info methods --markdown | sed -n 's|^.*](methods/\([a-z0-9-]*\)\.md).*|\1|p'); do
    "$program" info methods "$method" --man >"$man/kvcull-method-$method.7"
done
sh "$source/tools/completions.sh" "$program" "$folder/docs/completions"
