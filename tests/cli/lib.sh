# lib.sh - shared by the tests of the program. Each test sources it first; `finish` ends a test.
top_srcdir=${top_srcdir:-.}
top_builddir=${top_builddir:-.}
case $top_srcdir in /*) source=$top_srcdir ;; *) source=$PWD/$top_srcdir ;; esac
case $top_builddir in /*) build=$top_builddir ;; *) build=$PWD/$top_builddir ;; esac
program=${KVCULL:-$build/kvcull}
# Does what libtool's wrapper does, because the wrapper takes three times as long to start as the program.
if [ -z "${KVCULL-}${KVCULL_VALGRIND-}" ] && [ -x "$build/.libs/kvcull" ]; then
    program=$build/.libs/kvcull
    LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
KVCULL_DATA=$source/data
export KVCULL_DATA
demo=$KVCULL_DATA/demo
work=$(mktemp -d) || exit 99
XDG_STATE_HOME=$work/state # not the folder of the user who runs the tests
export XDG_STATE_HOME
trap 'chmod -R u+rwx "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
passed=0
failed=0

# Under `./dev check --valgrind` the program itself runs in valgrind; 99 is then its exit status after a finding.
kv() {
    if [ -n "${KVCULL_VALGRIND-}" ]; then
        "$build/libtool" --mode=execute valgrind -q --error-exitcode=99 --leak-check=full "$program" "$@"
    else
        "$program" "$@"
    fi
}

# Skips long tests under valgrind; test_memory.sh has a short run of each command for it.
not_in_valgrind() {
    [ -z "${KVCULL_VALGRIND-}" ] || { echo 'elsewhere: test_memory.sh runs in valgrind instead'; exit 77; }
}

# Sanitizers make everything several times slower, so long loops have fewer cases with them.
sanitized() { [ -n "${SANITIZE_FLAGS-}" ]; }

# True under `./dev check --all`. Otherwise tests leave out cases that repeat other tests (the pages on tests list
# them).
in_full() { [ -n "${KVCULL_TEST_WHOLE-}" ]; }

good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "not ok: $*"
    [ -s "$work/out" ] && head -n 5 "$work/out" | sed 's/^/    out: /'
    [ -s "$work/err" ] && head -n 5 "$work/err" | sed 's/^/    err: /'
    return 0
}

# ok ARGUMENTS...: the program must succeed. Its standard output is in $work/out, its standard error in $work/err.
ok() {
    kv "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status = 0 ]; then good; else bad "exit $status of: $*"; fi
}

# fails STATUS PATTERN ARGUMENTS...: the program must end with that status and one error line that begins with the
# command and matches.
fails() {
    want=$1
    pattern=$2
    shift 2
    kv "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status != "$want" ]; then bad "exit $status, not $want, of: $*"; return; fi
    check_error "$pattern" "$*"
}

check_error() {
    if [ "$(wc -l <"$work/err")" != 1 ]; then bad "not one line of error: $2"; return; fi
    if ! grep -q '^kvcull' "$work/err"; then bad "an error without a name in front: $2"; return; fi
    if ! grep -q -e "$1" "$work/err"; then bad "the error has no '$1': $2"; return; fi
    good
}

# has PATTERN [FILE]: the output matches.
has() { if grep -q -e "$1" "${2:-$work/out}"; then good; else bad "no '$1' in the output"; fi; }
# is TEXT: the output is exactly this text.
is() { if [ "$(cat "$work/out")" = "$1" ]; then good; else bad "the output is not '$1'"; fi; }
# that DESCRIPTION COMMAND...: the command must succeed.
that() {
    what=$1
    shift
    if "$@"; then good; else bad "$what"; fi
}
# narrow: no line is wider than 100 columns, except one that begins with the model's path.
narrow() {
    if awk -v path="$demo" 'index($0, path) != 1 { n = gsub(/[^\200-\277]/, "&"); if (n > 100) exit 1 }' "$work/out"; then good; else bad 'a line over 100 columns'; fi
}
# json PATH: prints the value at that path (a.b.0.c) of the JSON in $work/out as text.
json() { "$build/tests/cli/json_value" "$1" <"$work/out"; }
# nothing_left FOLDER: the folder has no file, not even a temporary one.
nothing_left() { if [ -z "$(ls -A "$1")" ]; then good; else bad "left over: $(ls -A "$1")"; fi; }

finish() {
    echo "[  PASSED  ] $passed test(s)."
    [ $failed = 0 ] && exit 0
    echo "[  FAILED  ] $failed test(s)."
    exit 1
}
