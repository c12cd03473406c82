# parts.sh - shared by tools/gpu-check and tools/device-report, which source it with bash: runs the parts of a report,
# each with a time limit. The caller sets: self, the script's name; work, a folder for logs; report, a file; lines, the
# maximum number of lines of a log in the report; all, the number of seconds from the start after which no further part
# runs; try, not empty to remove the parts' own limits; and failed=0.
complain() { printf '%s: %s\n' "$self" "$*" >&2; }
write() { printf '%s\n' "$@" >>"$report"; } # one line each

# part SECONDS TITLE NAME COMMAND...: runs the command, keeps its output as $work/NAME, and adds it to the report. A
# failure does not stop other parts.
part() {
    local limit=$1 title=$2 log=$work/$3 begin=$SECONDS status
    shift 3
    [ -z "$try" ] || limit=300 # the machine may be slow and busy
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
