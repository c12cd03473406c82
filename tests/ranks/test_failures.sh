#!/bin/sh
# A rank that fails, or got other input than the others, ends all ranks within a bounded time, with one line.
. "${top_srcdir:-.}/tests/ranks/lib.sh"

# What a rank runs first, by its number; the rest of its line is the program with its arguments.
cat >"$work/each" <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}
echo $$ >"$RANKS_WORK/pid.$rank"
[ ! -d "$RANKS_WORK/at.$rank" ] || cd "$RANKS_WORK/at.$rank"
[ ! -f "$RANKS_WORK/with.$rank" ] || set -- "$@" $(cat "$RANKS_WORK/with.$rank")
exec "$RANKS_PROGRAM" "$@"
END
chmod +x "$work/each"
RANKS_WORK=$work RANKS_PROGRAM=$program each=$work/each
export RANKS_WORK RANKS_PROGRAM

# refused STATUS PATTERN RANKS ARGUMENTS...
refused() {
    want=$1 pattern=$2
    shift 2
    on "$@"
    status=$?
    that "exit $status, not $want, of: $*" [ $status = "$want" ]
    one_line "$pattern" "$*"
}

refused 2 'nosuch: no such option' 3 run -m "$demo" --nosuch
refused 2 "'nosuch': must be tensor" 3 run -m "$demo" --ranks nosuch
refused 3 'nosuch' 3 run -m "$work/nosuch" -p a
refused 2 'cannot be saved' 2 run -m "$demo" -p 'the number' -n 2 --save "$work/session.kv"
that 'nothing is half written' [ ! -e "$work/session.kv" ]
refused 2 'method kvcompose: .*use .--ranks tensor' 2 run -m "$demo" -p a --kv kvcompose:budget=66 --ranks pipeline
refused 2 'method fastkvzip: .*use .--ranks tensor' 2 run -m "$demo" -p a --kv fastkvzip:budget=66,file=drawn --ranks pipeline
echo '--ranks=other' >"$work/with.1"
refused 2 "rank 0 was given 'tensor', rank 1 'other'" 3 run -m "$demo" -p a
echo '--share=1,2,1' >"$work/with.1"
refused 2 "rank 0 was given the share '', rank 1 '1,2,1'" 3 run -m "$demo" -p a
rm "$work/with.1"

# A file that differs or is missing for one rank.
mkdir "$work/at.0" "$work/at.1"
ok mkmodel --shape tiny --seed 1 -o "$work/at.0/model.gguf" -q
refused 4 'rank 1: model.gguf' 2 run -m model.gguf -p a
ok mkmodel --shape tiny --seed 2 -o "$work/at.1/model.gguf" -q
refused 4 'model.gguf: tensor [a-z0-9_.]* is not the same on rank 1' 2 run -m model.gguf -p a
rm -r "$work/at.0" "$work/at.1"

# Within ten seconds; a parent that does not wait for its children leaves a zombie.
ended() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! grep -qs '^State:[[:blank:]]*[^ZX]' "/proc/$1/status" && return
        sleep 1
    done
    return 1
}

# One rank is killed: the others end, and mpirun reports it.
head -c 3000000 /dev/zero | tr '\0' 'a' | sed 's/aaaaaaaa/ number/g' >"$work/long"
for killed in 0 1 pipeline-0 pipeline-1; do
    rm -f "$work"/pid.*
    case $killed in
    pipeline*) on 2 run -m "$demo" -f "$work/long" -n 1 -q --ranks pipeline & ;;
    *) on 2 perplexity -m "$demo" -f "$work/long" --kv full --ctx 400000 & ;;
    esac
    killed=${killed#pipeline-}
    waited=0
    while [ ! -s "$work/pid.$killed" ] || [ ! -s "$work/pid.$((1 - killed))" ]; do
        sleep 0.1
        [ $((waited += 1)) -lt 300 ] || break
    done
    sleep 1
    that "rank $killed runs" kill -9 "$(cat "$work/pid.$killed")"
    wait $!
    status=$?
    that "rank $killed is killed: $status" [ $status != 0 ] && that 'it does not hang' [ $status != 124 ]
    that 'the other one has ended' ended "$(cat "$work/pid.$((1 - killed))")"
done
finish
