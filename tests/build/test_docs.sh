#!/bin/sh
# What documents and comments name is there: files, folders, functions, tests. A name is looked for in the code, not in
# other comments. "`function` (`file`)" in a document says that the file has the function.
cd "$top_srcdir" || exit 1
LC_ALL=C
export LC_ALL
work=$(mktemp -d "${TMPDIR:-/tmp}/test_docs-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
folders='core|backends|models|policies|cli|eval|serve|bench|examples|include|tests|tools|docs|data|m4|python|packaging'
endings='c|h|inc|cc|cu|sh|mk|md|py|awk|txt|tsv|def|ac|am|in|json|safetensors|gguf|1|7'
find README.md CONTRIBUTING.md CHANGELOG.md docs -name '*.md' | sort >"$work/documents"
find core backends models policies cli eval serve bench examples include tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' |
    sort >"$work/sources"
find core backends models policies cli eval serve bench examples include tests tools \( -name '*.sh' -o -name '*.mk' \) |
    sort >"$work/scripts"
# shellcheck disable=SC2046 # no name has a blank
awk -v only=c -f tests/build/comments.awk $(cat "$work/sources") >"$work/comments"
# shellcheck disable=SC2046
awk -v only=k -f tests/build/comments.awk $(cat "$work/sources") | cut -d' ' -f3- | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u >"$work/names"
{ # list.def is made in the build folder
    find . \( -name .git -o -name 'build*' \) -prune -o -type f -print | sed 's|.*/||'
    echo list.def
} | sort -u >"$work/files"
# Lines "FILE:LINE: NAME" whose name is not there become complaints.
wrong() { sed "s|\$| $1|" >>"$work/wrong"; }
: >"$work/wrong"

# ---- paths: those of a folder of the tree; "tests/core/test_step" is the program of test_step.c
{
    # shellcheck disable=SC2046
    grep -nE "($folders)/" $(cat "$work/documents") /dev/null
    grep -E "($folders)/" "$work/comments"
    # shellcheck disable=SC2046
    grep -nE "^ *# .*($folders)/|^# .*($folders)/" $(cat "$work/scripts") dev configure.ac Makefile.am /dev/null
} | awk -v folders="$folders" '{
    where = $0; sub(/:[^:]*$/, "", where); match($0, /^[^:]*:[0-9]+/); where = substr($0, 1, RLENGTH)
    rest = " " substr($0, RLENGTH + 1)
    while (match(rest, "[^A-Za-z0-9_./$<-](" folders ")/[A-Za-z0-9_./*{},<>$-]*")) {
        path = substr(rest, RSTART + 1, RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/[.,-]+$/, "", path)
        if (path !~ /[<>${}]|\/(NAME|FILE|FOLDER|PAGE|PATH)/ && path !~ /^build\//)
            print where ": " path
    }
}' | while IFS=' ' read -r where path; do
    case $path in
    *\**) set -- $path; [ -e "$1" ] && continue ;;
    tests/cache | tests/*.log | policies/list.def) continue ;; # of a build folder
    esac
    [ -e "$path" ] || [ -e "$path.c" ] || [ -e "${path%.o}.c" ] || printf '%s %s\n' "$where" "$path"
done | wrong 'is not there'

# ---- files by their bare names
{
    # shellcheck disable=SC2046
    grep -noE "\`[a-z][A-Za-z0-9_-]*\.(c|h|inc|sh|mk|md|def|py|awk|ac|am)\`" $(cat "$work/documents") /dev/null | tr -d '`'
    grep -E '[a-z]\.(c|h|inc|sh|mk|md|def)' "$work/comments" | awk '{
        match($0, /^[^:]*:[0-9]+/); where = substr($0, 1, RLENGTH); rest = " " substr($0, RLENGTH + 1) " "
        while (match(rest, /[^A-Za-z0-9_.\/*<$-][a-z][a-z0-9_]*\.(c|h|inc|sh|mk|md|def)[^A-Za-z0-9_]/)) {
            print where ":" substr(rest, RSTART + 1, RLENGTH - 2)
            rest = substr(rest, RSTART + RLENGTH - 1)
        }
    }'
} | awk -F: 'NR == FNR { there[$1] = 1; next } !($3 in there) { print $1 ":" $2 ": " $3 }' "$work/files" - |
    wrong 'is no file of the tree'

# ---- "`notes/x.md`": paths that begin in no folder of the tree
# shellcheck disable=SC2046
grep -noE "\`[a-z][a-z_0-9-]*/[A-Za-z0-9_/.-]*\.($endings)\`" $(cat "$work/documents") /dev/null | tr -d '\`' |
    while IFS=: read -r file line path; do
        case $path in build/* | */[A-Z][A-Z]*.*) continue ;; esac
        [ -e "$path" ] || printf '%s\n' "$file:$line: $path"
    done | wrong 'is not there'

# ---- names: `kvc_...` and KVC_... of documents and comments, test_... of documents: a program or script of tests/. A
# name that ends in _ begins others, one that ends in _NAME stands for any.
{
    # shellcheck disable=SC2046
    grep -noE '`[^`]*`' $(cat "$work/documents") /dev/null
    grep -E 'kvc_|KVC_' "$work/comments"
} | awk '{
    match($0, /^[^:]*:[0-9]+/); where = substr($0, 1, RLENGTH); rest = " " substr($0, RLENGTH + 1) " "
    document = where ~ /^(docs\/|[A-Z]+\.md)/
    pattern = document ? "[^A-Za-z0-9_/.](kvc|KVC|test)_[A-Za-z0-9_]+" : "[^A-Za-z0-9_/.](kvc|KVC)_[A-Za-z0-9_]+"
    while (match(rest, pattern)) {
        print where ":" substr(rest, RSTART + 1, RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
    }
}' >"$work/said"
{
    grep -v '^test_' "$work/names"
    find tests -name 'test_*' | sed 's|.*/||; s|\.[a-z]*$||'
} | sort -u >"$work/known"
awk -F: 'NR == FNR { there[$1] = 1; all[NR] = $1; count = NR; next }
    $3 in there { next }
    $3 ~ /_NAME$/ { next }
    $3 ~ /_$/ { for (i = 1; i <= count; i++) if (index(all[i], $3) == 1) next }
    { print $1 ":" $2 ": " $3 }' "$work/known" "$work/said" | wrong 'is no name of the code'

# ---- "`function` (`file`)"
# shellcheck disable=SC2046
grep -noE '`[a-z_0-9]+` \(`[a-z_0-9/]+\.[a-z]+`\)' $(cat "$work/documents") /dev/null |
    sed 's/^\([^:]*:[0-9]*\):`\([^`]*\)` (`\([^`]*\)`)$/\1 \2 \3/' | while read -r where name file; do
    grep -qw "$name" "$file" 2>/dev/null || printf '%s: %s\n' "$where" "$name is not in $file"
done >>"$work/wrong"

# ---- members of a class, in the first column of a table
sed -n 's/^| *\(`[a-z_`, ]*`\) *|.*/\1/p' docs/how-to/add-a-method.md | grep -oE '[a-z_]+' | while read -r member; do
    grep -qrw "$member" include || printf '%s: %s\n' docs/how-to/add-a-method.md "$member is in no public header"
done >>"$work/wrong"

sort -u "$work/wrong"
[ ! -s "$work/wrong" ]
