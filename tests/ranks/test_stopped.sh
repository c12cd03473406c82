#!/bin/sh
# A stopped rank (SIGSTOP) ends all ranks with one line that names it, whichever rank it is and whatever the others do;
# the server reports it earlier. A rank that continues in time, or computes for longer than --rank-timeout, ends none.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
cat >"$work/each" <<'END'
#!/bin/sh
echo $$ >"$RANKS_WORK/pid.${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}"
exec "$RANKS_PROGRAM" "$@"
END
chmod +x "$work/each"
RANKS_WORK=$work RANKS_PROGRAM=$program each=$work/each
export RANKS_WORK RANKS_PROGRAM
end_all() { for file in "$work"/pid.*; do kill -9 "$(cat "$file")" 2>/dev/null; done; }
trap 'end_all; rm -rf "$work"' EXIT

# until_true COMMAND...: waits until it succeeds, for half a minute at most.
until_true() {
    for _ in $(seq 300); do
        "$@" && return
        sleep 0.1
    done
    return 1
}
# A parent that does not wait for its children leaves a zombie.
ended() { ! grep -qs '^State:[[:blank:]]*[^ZX]' "/proc/$1/status"; }
# All ranks have mapped the model's file, so they are connected.
all_open() {
    for r in $(seq 0 $((count - 1))); do
        [ -s "$work/pid.$r" ] && grep -qs demo/model "/proc/$(cat "$work/pid.$r")/maps" || return
    done
}
# begin RANKS ARGUMENTS...
begin() {
    count=$1
    shift
    rm -f "$work"/pid.*
    : >"$work/out" >"$work/err"
    # shellcheck disable=SC2086
    timeout 300 $start -n "$count" "$each" "$@" --threads 1 --rank-timeout "$limit" >"$work/out" 2>"$work/err" </dev/null &
    starter=$!
    until_true all_open || bad "not all of $count ranks have opened the model"
}
stop() { kill -STOP "$(cat "$work/pid.$1")"; }
# named RANK WHAT: all ranks have ended, with status 4 and one line.
named() {
    wait "$starter"
    status=$?
    that "$2: exit $status" [ $status = 4 ]
    that "$2: one line" [ "$(grep -c '^kvcull: rank' "$work/err")" = 1 ]
    has "rank $1 has not answered for $limit s" "$work/err"
    for r in $(seq 0 $((count - 1))); do
        that "$2: rank $r has ended" until_true ended "$(cat "$work/pid.$r")"
    done
}

limit=2
head -c 3000000 /dev/zero | tr '\0' 'a' | sed 's/aaaaaaaa/ number/g' >"$work/long"
for how in tensor pipeline; do
    for rank in 0 1; do
        begin 2 run -m "$demo" -f "$work/long" --ctx 400000 -n 1 -q --ranks $how
        stop $rank
        named $rank "$how, a prompt, rank $rank"
    done
done
begin 3 run -m "$demo" -p 'the magic number' -n 200000 --ctx 400000 --ignore-eos -q --kv streaming:budget=64,sinks=2
until_true test -s "$work/out" || bad 'nothing is decoded'
stop 2
named 2 'decoding'

# A rank that continues in time ends no other. All ranks together may stop for any time.
begin 2 run -m "$demo" -p 'the magic number' -n 3000 --ctx 4000 --ignore-eos -q --kv streaming:budget=64,sinks=2
stop 1
sleep 1
kill -CONT "$(cat "$work/pid.1")"
sleep 1
stop 0
stop 1
sleep 3
kill -CONT "$(cat "$work/pid.0")" "$(cat "$work/pid.1")"
wait "$starter"
status=$?
that "a rank that goes on: exit $status" [ $status = 0 ]
# No limit: the others wait.
limit=0
begin 2 run -m "$demo" -f "$work/long" --ctx 400000 -n 1 -q
stop 1
sleep 4
that 'no limit: all wait' kill -0 "$starter"
end_all
wait "$starter" 2>/dev/null

# ---- the idle server: /health reports it, then the server ends
python=${KVCULL_PYTHON-python3}
"$program" serve -m "$work/none" 2>&1 | grep -q 'built without the server' && finish
command -v "$python" >/dev/null 2>&1 || finish
limit=10
begin 2 serve --port 0 -m "$demo" --template chatml -q
until_true grep -q '^listening on' "$work/out" || bad 'the server does not listen'
url=$(sed -n 's/^listening on \([^ ]*\) .*/\1/p' "$work/out")
health() {
    "$python" - "$url/health" <<'END'
import sys
import urllib.error
import urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
END
}
that 'healthy' [ "$(health)" = '200 {"status":"ok"}' ]
stop 1
waits() { health >"$work/health" 2>/dev/null; grep -q '^503 {"status":"waiting","rank":1,"silent_seconds":[0-9]' "$work/health"; }
that 'it is told' until_true waits
named 1 'an idle server'
finish
