#!/bin/sh
# There is a manual page for every method of tools/policy_list.sh and for no other, and every page is well-formed.
pages=$(cd "$top_srcdir" && ls docs/man/*.[17]) || { echo 'no manual page in docs/man'; exit 1; }
listed=$(sh "$top_srcdir/tools/policy_list.sh" "$top_srcdir" | sed 's/KVC_POLICY(\(.*\))/\1/' | tr _ - | sort)
there=$(echo "$pages" | sed -n 's|docs/man/kvcull-method-\(.*\)\.7|\1|p' | sort)
[ "$listed" = "$there" ] || { echo "methods: $listed"; echo "their manual pages: $there"; exit 1; }
[ -n "$MANDOC" ] || { echo 'mandoc is not here'; exit 77; }
cd "$top_srcdir" && $MANDOC -Tlint -Wwarning $pages
