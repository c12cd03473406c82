#!/bin/sh
# Calls between the files of core/ have no cycles. The test reads object files: if one lacks a function that another
# has, the first file calls the second. Calls by function pointer (a backend's operations, a policy's functions) do not
# count.
build=$(cd "$top_builddir" && pwd)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
# One object for each source, wherever libtool puts it. Objects of an older build, whose sources no longer exist, are
# ignored.
objects=$(cd "$top_srcdir" && find core -name '*.c' | sort | while read -r source; do
    plain=${source%.c}.o shared=${source%/*}/.libs/$(basename "$source" .c).o
    for object in "$plain" "$shared"; do
        [ -e "$build/$object" ] && echo "$object" && break
    done
done)
command -v "${NM-nm}" >/dev/null && [ -n "$objects" ] || { echo "no nm, or no object files of core/"; exit 77; }

# calls FILE: prints "caller callee name" for the object files in FILE, which has lines "FILE has NAME" or "FILE lacks
# NAME".
calls() {
    awk '$2 == "has" { home[$3] = $1 }
         $2 == "lacks" { caller[++n] = $1; name[n] = $3 }
         END { for (i = 1; i <= n; i++) if (name[i] in home && home[name[i]] != caller[i])
                   print caller[i], home[name[i]], name[i] }' "$1" | sort -u
}
# circles: reads "caller callee name" and repeatedly removes files that call no remaining file, or that no remaining
# file calls. Cycles remain, and paths between them.
circles() {
    awk '{ from[NR] = $1; to[NR] = $2; line[NR] = $0; here[NR] = 1 }
         END { do {
                   gone = 0
                   split("", calls); split("", called)
                   for (i = 1; i <= NR; i++) if (here[i]) { calls[from[i]] = 1; called[to[i]] = 1 }
                   for (i = 1; i <= NR; i++) if (here[i] && !((to[i] in calls) && (from[i] in called))) {
                       here[i] = 0
                       gone = 1
                   }
               } while (gone)
               for (i = 1; i <= NR; i++) if (here[i]) print line[i] }'
}

# The search itself finds a cycle, and nothing else.
printf '%s\n' 'a b f' 'b c g' 'c b h' 'c d i' | circles >"$work/found"
printf '%s\n' 'b c g' 'c b h' | cmp -s - "$work/found" || { echo "a circle of two is not found"; exit 1; }

for object in $objects; do
    "${NM-nm}" -P "$build/$object" |
        awk -v file="$(echo "${object%.o}" | sed 's,/[.]libs/,/,')" '$2 == "T" { print file, "has", $1 } $2 == "U" { print file, "lacks", $1 }'
done >"$work/symbols"
calls "$work/symbols" >"$work/calls"
[ "$(wc -l <"$work/calls")" -gt 100 ] || { echo "hardly a call between files of core/ is found"; exit 1; }
circles <"$work/calls" >"$work/circles"
[ -s "$work/circles" ] || exit 0
echo "files of core/ call each other in a circle:"
awk '{ printf "%s calls %s: %s\n", $1, $2, $3 }' "$work/circles"
exit 1
