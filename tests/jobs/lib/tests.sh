# tests.sh - runs the tests of a build folder and counts their cases; sourced by dev.
#
# A test that did not run to its end has failed, whatever the reason: a time limit, a killed make, a program that does
# not build. A skipped test or case gives its reason, and ./dev check repeats all reasons in its last lines.

passed=0 failed=0 skipped=0 elsewhere=0
declare -a failures=() reasons=()

# If a test is skipped because it belongs to another job, its reason begins with this word.
other_job='elsewhere:'

add() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    say "    $1 passed, $2 failed, $3 skipped"
}

# failure NAME: counts one more failed case, which the last lines name.
failure() {
    failed=$((failed + 1))
    failures+=("$1")
}

# skip NAME REASON: counts one skipped case.
skip() {
    add 0 0 1
    reasons+=("$2"$'\t'"$1")
}

# left: prints how many seconds of KVCULL_CHECK_SECONDS are left; prints nothing if the time is not limited.
left() {
    [ -z "${KVCULL_CHECK_SECONDS-}" ] || echo $((KVCULL_CHECK_SECONDS > SECONDS ? KVCULL_CHECK_SECONDS - SECONDS : 0))
}

# within COMMAND...: runs the command, at most for the time that is left; status 124 means that the time ran out.
within() {
    local seconds
    seconds=$(left)
    if [ -z "$seconds" ] || ! have timeout; then
        "$@" 9>&-
    elif [ "$seconds" = 0 ]; then
        return 124
    else
        timeout "$seconds" "$@" 9>&-
    fi
}

# count_log NAME DIR: prints "PASSED FAILED SKIPPED ELSEWHERE STATE" for one test, then a line "REASON<tab>NAME" for
# each skip. A program that died counts as one failed case.
count_log() {
    local base=$2/${1%.sh}
    [ -s "$base.trs" ] || { say '0 1 0 0 none'; return; }
    awk -v name="$1" -v other="$other_job" '
        function skip(reason, of) {
            if (index(reason, other) == 1) { e++; return }
            s++
            sub(/^skipped: /, "", reason)
            line[++lines] = (reason == "" ? "no reason given" : reason) "\t" of
        }
        FILENAME ~ /\.trs$/ { if ($1 == ":test-result:") state = $2; next }
        /^(SKIP|PASS|FAIL|ERROR|XPASS|XFAIL) .*\(exit status: / { next }
        /^\[ RUN  / { said = ""; next }
        /\[  PASSED  \] [0-9]+ test/ { p += $4; seen = 1; next }
        /\[  FAILED  \] [0-9]+ test/ { f += $4; seen = 1; next }
        /\[  SKIPPED \] [0-9]+ test/ { seen = 1; next }
        /^\[  SKIPPED \] / { if (!($4 in shown)) skip(said, name " " $4); shown[$4] = 1; next }
        /^\[/ { next }
        $0 != "" { said = $0 }
        END {
            bad = state == "FAIL" || state == "ERROR" || state == "XPASS" || state == ""
            if (!seen && state == "SKIP") skip(said, name)
            else if (!seen && !bad) p = 1
            if (bad && !f) f = 1
            print p + 0, f + 0, s + 0, e + 0, state == "" ? "none" : state
            for (i = 1; i <= lines; i++) print line[i]
        }' "$base.trs" "$base.log"
}

# count DIR NAME...: adds up the cases of these tests. A test without a result did not run to its end, so it counts as
# failed.
count() {
    local dir=$1 name p=0 f=0 s=0 numbers line first
    shift
    for name; do
        first=yes
        while IFS= read -r line; do
            if [ -n "$first" ]; then
                first=
                # shellcheck disable=SC2206
                numbers=($line)
                p=$((p + numbers[0])) f=$((f + numbers[1])) s=$((s + numbers[2])) elsewhere=$((elsewhere + numbers[3]))
                if [ "${numbers[4]}" = none ]; then
                    failures+=("$dir: $name did not run to its end")
                elif [ "${numbers[1]}" != 0 ]; then
                    failures+=("$dir: $name")
                fi
            else
                reasons+=("$line")
            fi
        done < <(count_log "$name" "$dir")
    done
    add $p $f $s
}

# slowest DIR: prints the 20 slowest tests.
slowest() {
    [ -d "$1/times" ] || return 0
    say "    the slowest tests: seconds, of them CPU (all tests: $(total_time "$1/times"))"
    (cd "$1/times" && for file in *; do
        [ ! -s "$file" ] || say "$(tail -n 1 "$file") ${file//,//}"
    done) | awk 'NF == 4 { printf "    %7.1f %7.1f  %s\n", $1, $2 + $3, $4 }' | sort -rn | head -n 20
}

total_time() {
    find "$1" -type f -exec tail -q -n 1 {} + | awk '{ t += $1; c += $2 + $3 } END { printf "%.0f s, CPU %.0f s", t, c }'
}

# run_tests TITLE DIR: builds and runs the tests of a build folder. The caller may set
#   only       these tests, by their names in the makefile; otherwise all
#   through    a command that runs test programs
#   at_once    how many run at the same time; otherwise half as many again as there are cores, because servers,
#              clients and ranks wait a quarter of the time
#   settings   NAME=VALUE words for the environment
#   limit      seconds after which a test is ended, and fails; otherwise 900
run_tests() {
    local title=$1 dir=$2 start=$SECONDS status before=$failed names programs timed target=check
    names=${only-$(make -s --no-print-directory -C "$dir" list-tests)}
    programs=$(for name in $names; do case $name in *.sh) ;; *) say "$name" ;; esac; done)
    names=$(say $names) programs=$(say $programs)
    find "$dir" \( -name '*.trs' -o -name 'test-suite.log' \) -not -path "$dir/*/tests/*" -exec rm -f {} +
    rm -rf "$dir/times" && mkdir -p "$dir/times"
    # A test that does not build has no result, which is noticed below.
    set -- check TESTS=
    if [ -n "${only-}" ]; then
        target=check-TESTS
        # shellcheck disable=SC2086
        set -- $programs
    fi
    [ $# = 0 ] || step "building the tests of $dir" "$dir/build-tests.log" within make -C "$dir" -j"$jobs" -k "$@"
    start=$SECONDS
    timed="${BASH:-bash} $PWD/tests/jobs/lib/timed.sh ${limit:-900} $PWD/$dir/times"
    # shellcheck disable=SC2086
    within env ${settings-} make -C "$dir" -j"${at_once-$((jobs + (jobs + 1) / 2))}" -k $target ${only+TESTS="$names" check_PROGRAMS="$programs"} \
        LOG_COMPILER="$timed ${through-}" SH_LOG_COMPILER="$timed ${BASH:-/bin/sh}" </dev/null >"$dir/check.log" 2>&1
    status=$?
    say "$title: $((SECONDS - start)) s"
    [ $status != 124 ] || failure "$title: cut, KVCULL_CHECK_SECONDS=$KVCULL_CHECK_SECONDS were over"
    # shellcheck disable=SC2086
    count "$dir" $names
    slowest "$dir"
    [ $status = 0 ] || show_failures "$dir"
    if [ $status != 0 ] && [ $failed = $before ]; then
        tail -n 30 "$dir/check.log" >&2
        failure "$title: make failed before or after the tests; $PWD/$dir/check.log has it all"
    fi
}

# count_lines TITLE LOG: adds up the lines "ok NAME", "not ok NAME: WHY" and "skip NAME: REASON" of a script.
count_lines() {
    local line name
    while IFS= read -r line; do
        case $line in
        'not ok'*) failures+=("$1: ${line#not ok}") ;;
        'skip '*) name=${line#skip }; reasons+=("${name#*: }"$'\t'"$1: ${name%%: *}") ;;
        esac
    done <"$2"
    grep -v '^ok' "$2"
    add "$(grep -c '^ok' "$2")" "$(grep -c '^not ok' "$2")" "$(grep -c '^skip' "$2")"
}

show_failures() {
    [ -e "$1/test-suite.log" ] || return
    grep -hE '\[  ERROR|\[  FAILED  \]|runtime error|ERROR: AddressSanitizer|^FAIL|: error:|not ok|^cut:' "$1/test-suite.log" |
        head -n 40 >&2
    complain "$PWD/$1/test-suite.log has the output of every failed test"
}

# run_job NAME: runs a job. A job that counts no cases has failed, and so has one for which no time is left.
run_job() {
    local before=$((passed + failed + skipped))
    if [ "$(left)" = 0 ]; then
        say "$1: not run"
        failure "job $1: not run, KVCULL_CHECK_SECONDS=$KVCULL_CHECK_SECONDS were over"
        return
    fi
    job=$1
    "check_$1"
    [ $((passed + failed + skipped)) != $before ] || failure "job $1: it counted no case"
    job=
}

# report: prints the last lines of a check. Status 0: everything that was requested ran to its end, and nothing failed.
report() {
    local line
    if [ ${#reasons[@]} != 0 ]; then
        say 'skipped, for what is missing here:'
        printf '%s\n' "${reasons[@]}" | awk -F'\t' '
            !($1 in count) { order[++n] = $1 }
            { names[$1] = names[$1] (count[$1]++ < 4 ? (count[$1] > 1 ? ", " : "") $2 : "") }
            END {
                for (i = 1; i <= n; i++) {
                    r = order[i]
                    print "    " r ": " names[r] (count[r] > 4 ? " and " count[r] - 4 " more" : "")
                }
            }'
    fi
    if [ ${#failures[@]} != 0 ]; then
        say 'failed:'
        printf '    %s\n' "${failures[@]}"
    fi
    [ $elsewhere = 0 ] || say "$elsewhere belong to other jobs"
    say "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ] && [ $passed != 0 ]
}
