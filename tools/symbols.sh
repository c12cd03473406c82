#!/bin/sh
# symbols.sh HEADER... - prints the functions that the public headers declare, one per line, sorted. It removes
# comments, attributes, function types and inline functions first. The rest of a declaration is "type kvc_name(".
set -eu
cat "$@" | tr "\n" " " | sed 's|/\*[^*]*\*\**\([^/*][^*]*\*\**\)*/| |g' | sed 's/__attribute__ *(([^;]*))//g' | tr ';{}' '\n\n\n' |
    grep -v -e typedef -e 'static inline' | sed -n 's/.*[ *]\(kvc_[a-z0-9_]*\) *([^*].*/\1/p' | LC_ALL=C sort -u
