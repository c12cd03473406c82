#!/bin/sh
# symbols.sh HEADER... - prints the functions that the public headers declare, one a line, sorted.
# Comments, attributes, function types and inline functions go away first; what is left of a declaration is
# "type kvc_name(".
set -eu
cat "$@" | tr "\n" " " | sed 's|/\*[^*]*\*\**\([^/*][^*]*\*\**\)*/| |g' | sed 's/__attribute__ *(([^;]*))//g' | tr ';{}' '\n\n\n' |
    grep -v -e typedef -e 'static inline' | sed -n 's/.*[ *]\(kvc_[a-z0-9_]*\) *([^*].*/\1/p' | LC_ALL=C sort -u
