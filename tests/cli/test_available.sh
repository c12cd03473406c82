#!/bin/sh
# "Will it fit" under real limits: ulimit, and a control group if the test may create one.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
sanitized && { echo 'elsewhere: ./dev check --plain runs this; sanitizers take more address space than any limit leaves'; exit 77; }
prompt='--prompt 100000 --gen 10'

# fits FITS FROM: checks the JSON for a model that needs 500 MB.
fits() {
    that "fits: $(json policies.0.fits), by $(json memory_from)" [ "$(json policies.0.fits)" = "$1" ]
    that "it is by $2" [ "$(json memory_from | cut -c 1-${#2})" = "$2" ]
}
ok info "$demo" $prompt --json
need=$(json policies.0.total_bytes)
ok info "$demo" $prompt --mem 1G --json
fits true --mem
(ulimit -d 150000; kv info "$demo" $prompt --json >"$work/out" 2>"$work/err")
fits false 'the data segment (ulimit -d)'
that 'no more than the limit' [ "$(json memory)" -le $((150000 * 1024 + 3500000)) ]
(ulimit -v 400000; kv info "$demo" $prompt --json >"$work/out" 2>"$work/err")
that 'by address space' [ "$(json memory_from)" = 'the address space (ulimit -v)' ]
(ulimit -v 400000; kv info "$demo" $prompt >"$work/out" 2>"$work/err")
has '^Free: limited by the address space (ulimit -v)$'
narrow

# in_group FOLDER LIMIT FROM: the same in a new control group.
in_group() {
    group=$1/kvcull-test-$$
    [ -e "$1/cgroup.procs" ] && mkdir "$group" 2>/dev/null || return 0
    trap 'rmdir "$group" 2>/dev/null; chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
    if [ -e "$group/$2" ] && echo 60000000 2>/dev/null >"$group/$2" && sh -c 'echo $$ >"$0/cgroup.procs"' "$group" 2>/dev/null; then
        sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$program" info "$demo" $prompt --json >"$work/out" 2>"$work/err"
        fits false "$2 of $1/kvcull-test-"
        that 'no more than the limit' [ "$(json memory)" -le 60000000 ]
        that 'more than it needs itself' [ "$(json memory)" -gt 20000000 ]
    fi
    rmdir "$group"
}
in_group /sys/fs/cgroup memory.max
in_group /sys/fs/cgroup/memory memory.limit_in_bytes
that 'the model needs more than these limits' [ "$need" -gt 153600000 ]
finish
