#!/bin/sh
# Checks the pages and the comments of the tree. Each page begins with its title; its links resolve; docs/README.md
# links every page under docs/; the commands shown exist, with their options and methods. Files, folders, functions and
# tests that pages and comments name exist. The test looks for a name in the code, not in other comments. "`function`
# (`file`)" in a page says that the file has the function.
man=$(cd "${top_builddir:-.}" && pwd)/docs/man # `make` writes the manual pages
cd "${top_srcdir:-.}" || exit 1
LC_ALL=C
export LC_ALL
work=$(mktemp -d "${TMPDIR:-/tmp}/test_docs-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
folders='core|backends|models|policies|cli|eval|serve|bench|examples|include|tests|tools|docs|data|m4|python|packaging'
endings='c|h|inc|cc|cu|sh|mk|md|py|awk|txt|tsv|def|ac|am|in|json|safetensors|gguf|1|7'
find README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md python/README.md docs -name '*.md' | sort >"$work/documents"
find core backends models policies cli eval serve bench examples include tests -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' |
    sort >"$work/sources"
find core backends models policies cli eval serve bench examples include tests tools \( -name '*.sh' -o -name '*.mk' \) |
    sort >"$work/scripts"
# shellcheck disable=SC2046 # no name has a blank
awk -v only=c -f tests/build/comments.awk $(cat "$work/sources") >"$work/comments"
# shellcheck disable=SC2046
awk -v only=k -f tests/build/comments.awk $(cat "$work/sources") | cut -d' ' -f3- | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u >"$work/names"
{ # list.def is generated in the build folder
    find . \( -name .git -o -name 'build*' \) -prune -o -type f -print | sed 's|.*/||'
    echo list.def
} | sort -u >"$work/files"
# Turns lines "FILE:LINE: NAME", whose name does not exist, into complaints.
wrong() { sed "s|\$| $1|" >>"$work/wrong"; }
: >"$work/wrong"

# ---- titles: the first line, or the second one under "<!-- Made by ..."
while read -r page; do
    awk -v page="$page" 'NR == 1 && /^<!-- Made by .*-->$/ { next }
        { if ($0 !~ /^# [^ ]/) print page ":" NR ": the page does not begin with its title"; exit }' "$page"
done <"$work/documents" >>"$work/wrong"

# ---- links to files of the tree, and to headings in them
# shellcheck disable=SC2046
awk '
    FNR == 1 { fence = 0 }
    /^ *```/ { fence = !fence }
    fence || /^    / { next }
    /^#+ / {
        anchor = tolower($0)
        sub(/^#+ */, "", anchor)
        gsub(/[^a-z0-9 _-]/, "", anchor)
        gsub(/ /, "-", anchor)
        print "heading", FILENAME "#" anchor
    }
    {
        rest = $0
        gsub(/`[^`]*`/, "", rest)
        while (match(rest, /\]\([^() ]*\)/)) {
            print "link", FILENAME ":" FNR, substr(rest, RSTART + 2, RLENGTH - 3)
            rest = substr(rest, RSTART + RLENGTH)
        }
    }' $(cat "$work/documents") >"$work/marks"
sed -n 's/^heading //p' "$work/marks" >"$work/headings"
sed -n 's/^link //p' "$work/marks" | grep -vE ' (https?|mailto):' | while read -r where link; do
    page=${where%:*} file=${link%%#*}
    case $file in
    '') path=$page ;;
    *) path=$(dirname "$page")/$file ;;
    esac
    path=$(printf '%s\n' "$path" | sed -e 's|^\./||' -e ':again' -e 's|[^/.][^/]*/\.\./||' -e 't again')
    if [ ! -e "$path" ]; then
        printf '%s: the link to %s leads nowhere\n' "$where" "$link"
    else
        printf '%s %s\n' "$page" "$path" >>"$work/linked"
        case $link in *#*) grep -qxF "$path#${link#*#}" "$work/headings" ||
            printf '%s: %s has no heading #%s\n' "$where" "$path" "${link#*#}" ;; esac
    fi
done >>"$work/wrong"

# ---- the index: it links every page, and docs/reference/methods.md links each page of a method
while read -r page; do
    case $page in
    docs/README.md) continue ;;
    docs/reference/methods/*) index=docs/reference/methods.md ;;
    docs/*) index=docs/README.md ;;
    *) continue ;;
    esac
    grep -qxF "$index $page" "$work/linked" || printf '%s: %s does not link it\n' "$page" "$index"
done <"$work/documents" >>"$work/wrong"

# ---- commands, against the manual pages, the pages of the methods, and the scripts
{
    for page in "$man"/kvcull-*.1; do
        command=${page##*/kvcull-} command=${command%.1}
        echo "command $command"
        sed -n 's/^\.It Fl //p' "$page" | awk -v command="$command" '{
            count = split($0, part, " , Fl ")
            takes = /Ar "/ ? "ARGUMENT" : ""
            for (i = 1; i <= count; i++) { sub(/ .*/, "", part[i]); print "option", command, "-" part[i], takes }
        }'
    done
    sed -n 's/^\.Fl -\([a-z-]*\).*/any --\1/p' "$man/kvcull.1" # other spellings of options
    grep -ohE 'add_argument\("[^)]*' python/kvcull/eval/__main__.py | grep -oE '"--[a-z-]+"' | sed 's/"\(.*\)"/any \1/'
    for page in docs/reference/methods/*.md; do
        method=${page##*/} method=${method%.md}
        echo "method $method"
        sed -n "s/^| \`\([a-z_]*\)\` |.*/setting $method \1/p" "$page"
    done
    sed -n 's/^| `\([a-z_]*\)` |.*/setting all \1/p' docs/reference/methods.md
    for file in tools/* tests/golden/*; do
        [ -f "$file" ] || continue
        echo "script ${file%.c}"
        grep -ohE '(^|[^A-Za-z0-9-])--[a-z][a-z-]*' "${file%%.*}"* | sed "s|^[^-]*|script ${file%.c} |"
    done
    for job in tests/jobs/*.sh; do job=${job##*/} && echo "job --${job%.sh}"; done
    echo 'job --all'
    sed -n 's/^\([^#|]*\)|.*/model \1/p' tests/real/models.txt
    grep -ohE 'AC_ARG_(WITH|ENABLE)\(\[[a-z-]*' configure.ac m4/*.m4 | sed 's/.*\[//' | while read -r option; do
        printf 'configure --%s\n' "with-$option" "without-$option" "enable-$option" "disable-$option"
    done
} >"$work/known_commands"
# shellcheck disable=SC2046
awk -f tests/build/commands.awk "$work/known_commands" $(cat "$work/documents") >>"$work/wrong"

# ---- paths that begin with a folder of the tree; "tests/core/test_step" is the program of test_step.c
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
    tests/cache | tests/*.log | policies/list.def | docs/man | docs/completions) continue ;; # in a build folder
    packaging/abi | packaging/abi/) continue ;; # from the first release on
    esac
    [ -e "$path" ] || [ -e "$path.c" ] || [ -e "${path%.o}.c" ] || printf '%s %s\n' "$where" "$path"
done | wrong 'is not there'

# ---- file names without a folder
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

# ---- "`notes/x.md`": paths that do not begin with a folder of the tree
# shellcheck disable=SC2046
grep -noE "\`[a-z][a-z_0-9-]*/[A-Za-z0-9_/.-]*\.($endings)\`" $(cat "$work/documents") /dev/null | tr -d '\`' |
    while IFS=: read -r file line path; do
        case $path in build/* | */[A-Z][A-Z]*.*) continue ;; esac
        [ -e "$path" ] || printf '%s\n' "$file:$line: $path"
    done | wrong 'is not there'

# ---- names: `kvc_...` and KVC_... in documents and comments; test_... in documents, a program or script of tests/. A
# name that ends in _ is the beginning of other names, and one that ends in _NAME stands for any.
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

# ---- other identifiers in documents, such as `view_evict`: a word of the sources, scripts, tests or manual pages.
# MPI_, CUDA_ and NCCL_ names come from other projects, and a name that ends in _NAME or _name stands for any.
find core ranks backends models policies cli eval serve bench examples include tests tools python packaging "$man" m4 dev configure.ac \
    -type f ! -name '*.md' ! -name '*.gguf' ! -name '*.safetensors' -exec grep -ohIE '[A-Za-z_][A-Za-z0-9_]*' {} + | sort -u >"$work/words"
# shellcheck disable=SC2046
grep -noE '`[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+`' $(cat "$work/documents") /dev/null | tr -d '`' |
    awk -F: 'NR == FNR { there[$1] = 1; next }
        !($3 in there) && $3 !~ /^(kvc|KVC|test|MPI|MPIX|CUDA|NCCL|X)_|_(NAME|name)$/ { print $1 ":" $2 ": " $3 }' "$work/words" - |
    wrong 'is no name of the tree'

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
