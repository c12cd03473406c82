#!/bin/sh
# policy_list.sh TOP - writes policies/list.def. It has a line KVC_POLICY(name) for each class that the files listed in
# TOP/policies/policies.mk define, in the order of that list. Every file must define a class.
set -eu
for file in $(sed -n '/^policy_files =/,/[^\\]$/s|^	\(policies/[a-z0-9_]*\.c\).*|\1|p' "$1/policies/policies.mk"); do
    names=$(sed -n 's/^const struct kvc_policy_class kvc_policy_\([a-z0-9_]*\) = {.*/KVC_POLICY(\1)/p' "$1/$file")
    [ -n "$names" ] || { echo "policy_list.sh: $file: no line 'const struct kvc_policy_class kvc_policy_NAME = {'" >&2; exit 1; }
    echo "$names"
done
