#!/bin/sh
# The server on several ranks: concurrent requests, each with its own policy, give results bit-identical to one process;
# a signal ends it with all ranks.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
python=${KVCULL_PYTHON-python3}
command -v "$python" >/dev/null 2>&1 || { echo 'no python3'; exit 77; }
"$program" serve -m "$work/none" 2>&1 | grep -q 'built without the server' && { echo 'this build has no server'; exit 77; }
KVCULL_TEST_MARK=$work
export KVCULL_TEST_MARK
starter=
trap '[ -z "$starter" ] || kill -9 $starter 2>/dev/null; rm -rf "$work"' EXIT

# begin RANKS OPTIONS...: starts a server; $url is its address, $starter the process that started it.
begin() {
    count=$1
    shift
    [ "$count" = 1 ] && on= || on="$start -n $count"
    : >"$work/said"
    # shellcheck disable=SC2086
    $on "$each" serve --port 0 -m "$demo" --template chatml --threads 1 -q "$@" >"$work/said" 2>"$work/err" </dev/null &
    starter=$!
    url=
    for _ in $(seq 600); do
        url=$(sed -n 's/^listening on \([^ ]*\) .*/\1/p' "$work/said")
        [ -n "$url" ] && return
        kill -0 $starter 2>/dev/null || break
        sleep 0.05
    done
    bad "the server on $count ranks does not listen"
    finish
}

# ask NAME: sends requests that the server batches, and a conversation over several requests.
ask() {
    PYTHONPATH=$source/tests/serve PYTHONDONTWRITEBYTECODE=1 "$python" - "$url" >"$work/$1" 2>"$work/err" <<'END'
import sys
import threading
from client import Server
server = Server(sys.argv[1])
policies = ['full', 'snapkv:budget=24,window=8', 'h2o:budget=24', 'streaming:budget=24', 'adakv:budget=24,window=8', 'full']
answers = [None] * len(policies)


def request(i):
    answers[i] = server.post('/v1/completions', prompt=f'{i} once upon a time ' * (4 + 3 * i), max_tokens=12, seed=i,
                             temperature=0.0 if i % 2 else 0.8, ignore_eos=True, logits_hash=True, kv=policies[i])


threads = [threading.Thread(target=request, args=(i,)) for i in range(len(policies))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i, answer in enumerate(answers):
    print(i, answer['choices'][0]['logits_hash'], repr(answer['choices'][0]['text']))
said = [{'role': 'user', 'content': 'the magic number is 7'}]
for turn in range(3):
    answer = server.post('/v1/chat/completions', messages=said, max_tokens=8, temperature=0, logits_hash=True)
    choice = answer['choices'][0]
    print('turn', turn, choice['logits_hash'], repr(choice['message']['content']))
    said += [{'role': 'assistant', 'content': choice['message']['content']}, {'role': 'user', 'content': f'and {turn}?'}]
status, _, data = server.send('POST', '/v1/completions', '{"prompt": "the", "kv": "nosuch"}')
print(status, data.decode())
END
    status=$?
    that "requests: exit $status" [ $status = 0 ]
}

# The server's processes, which have a mark in their environment; rank 0 is found by the variables of Open MPI and
# MPICH.
processes() { env -u KVCULL_TEST_MARK grep -lzs "^KVCULL_TEST_MARK=$work$" /proc/[0-9]*/environ; }
rank_0() {
    # shellcheck disable=SC2046
    grep -lzs '^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=0$' $(processes) | sed 's|/proc/\([0-9]*\)/.*|\1|'
}
gone() { # WHAT: nothing is left of it within ten seconds
    for _ in $(seq 200); do
        [ -z "$(processes)" ] && break
        sleep 0.05
    done
    that "$1: no rank is left" [ -z "$(processes)" ]
}

begin 1
ask alone
kill -TERM $starter
wait $starter
that 'answers' [ "$(wc -l <"$work/alone")" = 10 ]

while read -r count how; do
    # shellcheck disable=SC2086
    begin $count --ranks $how
    ask shared
    that "$count ranks, $how: the bits of one process" cmp -s "$work/alone" "$work/shared"
    kill -TERM "$(rank_0)"
    wait $starter
    status=$?
    that "$how: exit $status" [ $status = 0 ]
    gone "$how"
done <<END
2 tensor
3 tensor
2 pipeline
4 tensor=2,pipeline=2
END
# a signal from a job scheduler to the process that started the ranks
begin 2 --ranks tensor
kill -TERM $starter
wait $starter
gone 'the starter is told'
finish
