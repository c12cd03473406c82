# parts.sh - what tools/gpu-check and tools/device-report share: the parts of a report, each with its time. Bash reads it.
# Set there: self, the script's name; work, a folder for logs; report, a file; lines, how many of a log it gets at most;
# all, the seconds since the start after which nothing runs; try, not empty: parts have no time of their own; failed=0.
complain() { printf '%s: %s\n' "$self" "$*" >&2; }
write() { printf '%s\n' "$@" >>"$report"; } # a line each

# part SECONDS TITLE NAME COMMAND...: its output is kept as $work/NAME and goes to the report; one that fails does not
# stop the others.
part() {
    local limit=$1 title=$2 log=$work/$3 begin=$SECONDS status
    shift 3
    [ -z "$try" ] || limit=300 # any machine, and busy
    [ "$limit" -le $((all - SECONDS)) ] || limit=$((all - SECONDS))
    if [ "$limit" -lt 3 ]; then
        printf '%s: NOT RUN, no time is left\n' "$title"
        write "" "## $title" "" 'Not run: no time was left.'
        failed=1
        return 1
    fi
    printf '%s: ' "$title"
    timeout -k 2 "$limit" "$@" </dev/null >"$log" 2>"$log.err"
    status=$?
    case $status in
    0) printf 'done, %s s\n' $((SECONDS - begin)) ;;
    77) printf 'skipped\n' ;;
    124 | 137) printf 'ran past %s s\n' "$limit" && failed=1 ;;
    *) printf 'FAILED (%s)\n' $status && failed=1 ;;
    esac
    write "" "## $title" "" "\`$*\`, $((SECONDS - begin)) s, exit status $status" '' '```'
    { tail -n "$lines" "$log"; tail -n 20 "$log.err"; } >>"$report"
    write '```'
    return $status
}
