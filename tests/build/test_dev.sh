#!/bin/sh
# ./dev check succeeds only if everything has run: it fails, and names the job or test, if one is cut off, never starts,
# leaves no result or counts no case. Skips give their reasons; the slowest tests are printed; the faults of
# tests/mutants/list.txt can be put into the tree; --coverage finds what is not reached. Uses jobs and a makefile made
# up here.
command -v bash >/dev/null && command -v timeout >/dev/null || { echo 'no bash or no timeout'; exit 77; }
top=$(cd "$top_srcdir" && pwd) && work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL KVCULL_CONFIGURE KVCULL_CHECK_SECONDS KVCULL_DEV_LOCKED
failed=0 passed=0
# that DESCRIPTION COMMAND...
that() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not ok: $what"; sed 's/^/    /' "$work/out"; fi
}
has() { grep -qe "$1" "$work/out"; }
last() { [ "$(tail -n 1 "$work/out")" = "$1" ]; }
check() { # STATUS SECONDS ARGUMENTS...
    want=$1 seconds=$2
    shift 2
    (cd "$work/tree" && KVCULL_CHECK_SECONDS=$seconds ./dev check "$@") >"$work/out" 2>&1 </dev/null
    status=$?
    that "status $want, not $status, of check $*" [ $status = "$want" ]
}

mkdir -p "$work/tree/tests/jobs" "$work/tree/tests/real" "$work/tree/build/made"
cp "$top/dev" "$work/tree/" && cp -R "$top/tests/jobs/lib" "$work/tree/tests/jobs/" &&
    cp "$top/tests/real/bring.sh" "$top/tests/real/models.txt" "$work/tree/tests/real/" || exit 99
job() { printf '# a job\nprovide() { :; }\ncheck_%s() {\n%s\n}\n' "$1" "$2" >"$work/tree/tests/jobs/$1.sh"; }
job good 'add 3 0 0'
job bad 'add 1 1 0'
job idle ':'
job lacking 'add 1 0 0; skip lacking "no such device"'
job slow 'within sleep 30; add 1 0 0; [ "$(left)" != 0 ] || failure "slow was cut"'
job made 'run_tests made build/made'
job some 'only="tests/a tests/c.sh" run_tests some build/made'
# Tests of a makefile: recipe() sets their results.
cat >"$work/tree/build/made/Makefile" <<'END'
names = tests/a tests/b tests/c.sh tests/d.sh
result = mkdir -p tests; printf ':test-result: $(1)\n' >tests/$(2).trs; printf '$(3)\n' >tests/$(2).log;
list-tests: ; @for name in $(names); do echo $$name; done
tests/a tests/b: ;
check check-TESTS: ; @[ '$(TESTS)' = '' -a '$(MAKECMDGOALS)' = check -a '$(origin TESTS)' != 'undefined' ] || { $(tests) }
END
recipe() { printf 'tests = %s :;\n' "$1" >"$work/tree/build/made/tests.mk"; }
echo 'include tests.mk' >>"$work/tree/build/made/Makefile"
all='$(call result,PASS,a,[  PASSED  ] 2 test(s).) $(call result,PASS,b,[ RUN      ] x\nthere is no x here\n[  SKIPPED ] x\n[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s)\n[  SKIPPED ] x)'

check 0 '' --good
that 'counted' last '3 passed, 0 failed, 0 skipped'
check 1 '' --good --bad
that 'counted, too' last '4 passed, 1 failed, 0 skipped'
check 1 '' --good --idle
that 'a job that counts nothing is named' has '^    job idle: it counted no case'
check 0 '' --lacking
that 'a skip has its reason' has '^    no such device: lacking$'
that 'a skip is counted' last '1 passed, 0 failed, 1 skipped'
check 1 3 --slow --good
that 'a job that is cut is named' has '^    slow was cut$'
that 'a job that has no time left is named' has '^    job good: not run'

recipe "$all \$(call result,PASS,c,done) \$(call result,SKIP,d,no such tool\nSKIP tests/d.sh (exit status: 77))"
check 0 '' --made
that 'cases are counted' last '4 passed, 0 failed, 2 skipped'
that "a case's reason" has '^    there is no x here: tests/b x$'
that "a script's reason" has '^    no such tool: tests/d.sh$'
check 0 '' --some
that 'some tests only' last '3 passed, 0 failed, 0 skipped'
recipe "$all \$(call result,PASS,c,done)"
check 1 '' --made
that 'a test without a result is named' has '^    build/made: tests/d.sh did not run to its end$'
recipe "$all sleep 30;"
check 1 4 --made
that 'tests that are cut are named' has '^    build/made: tests/c.sh did not run to its end$'
that 'why' has '^    made: cut, KVCULL_CHECK_SECONDS=4 were over$'
recipe "$all \$(call result,SKIP,c,elsewhere: another job runs this) \$(call result,FAIL,d,oh)"
check 1 '' --made
that 'what belongs to another job is no skip' last '3 passed, 1 failed, 1 skipped'
that 'which test failed' has '^    build/made: tests/d.sh$'

# A test that hangs is ended, and its times are recorded.
printf 'exec sleep 30\n' >"$work/hangs.sh"
mkdir "$work/times"
bash "$top/tests/jobs/lib/timed.sh" 1 "$work/times" sh "$work/hangs.sh" >"$work/out" 2>&1
that 'a test that hangs fails' [ $? = 124 ]
that 'and says so' has '^cut: the test did not end within 1 seconds'
that 'its time' grep -q '^1\.[0-9]* 0\.[0-9]* 0\.[0-9]*$' "$work/times/"*hangs.sh
bash "$top/tests/jobs/lib/timed.sh" 9 "$work/times" sh -c 'exit 77' >"$work/out" 2>&1
that 'a status is kept' [ $? = 77 ]

# Every fault that the mutants' job puts in has its place in the tree.
(cd "$top" && bash -c 'say() { printf "%s\n" "$*"; }
    . tests/jobs/mutants.sh
    mutants | while IFS="	" read -r name file test case old new; do
        replace_text "$file" "$old" "$new" >/dev/null || echo "$name: $file has not one \"$old\""
        ls "$test" "$test.c" >/dev/null 2>&1 || [ -e "$test" ] || [ -e "$test.c" ] || echo "$name: no $test"
    done') >"$work/out" 2>&1
that 'faults have their places' [ ! -s "$work/out" ]

# What tests never reach: a function, a line and a branch of a file made up here.
if command -v gcc >/dev/null && command -v gcov >/dev/null && command -v python3 >/dev/null; then
    mkdir -p "$work/never/core" "$work/never/build/core"
    cat >"$work/never/core/some.c" <<'END'
int unused(int a) { return a; }
static int sign(int a) {
    if (a < 0)
        return -1;
    return a > 0 || a == 0;
}
int main(void) { return sign(1) - 1; }
END
    (cd "$work/never/build" && gcc -Og --coverage -c ../core/some.c -o core/some.o && gcc --coverage core/some.o -o some &&
        ./some && cd .. && python3 "$top/tests/jobs/lib/never.py" build core) >"$work/out" 2>&1
    that 'a function that is never entered is found' has '^core/some.c:1: never entered: unused$'
    that 'a line that is never run' has '^core/some.c:4: never run: return -1;$'
    that 'a branch that is never taken' has '^core/some.c:3: branches never taken, 1: if (a < 0)$'
    that 'and nothing else' [ "$(grep -c '^core/some.c:' "$work/out")" = 3 ]
    that 'the lines are counted' has '^    core: [0-9]* of [0-9]* lines run, [0-9.]* %$'
else
    echo 'skipped: no gcc, gcov or python3: what tests never reach'
fi

echo "[  PASSED  ] $passed test(s)."
[ $failed = 0 ] || { echo "[  FAILED  ] $failed test(s)."; exit 1; }
