#!/usr/bin/env bash
# timed.sh SECONDS FOLDER COMMAND... TEST - runs one test for ./dev. Ends the test, which then fails, after SECONDS, and
# writes its wall-clock, user and system seconds into FOLDER.
limit=$1 folder=$2
shift 2
top=$(cd "${BASH_SOURCE[0]%/*}/../../.." && pwd)
name=${!#}
name=${name#./}
name=${name#"$top/"}
TIMEFORMAT='%R %U %S'
stop=
command -v timeout >/dev/null && stop="timeout $limit"
# shellcheck disable=SC2086
{ time $stop "$@" 2>&3; } 3>&2 2>"$folder/${name//\//,}"
status=$?
[ $status != 124 ] || echo "cut: the test did not end within $limit seconds"
exit $status
