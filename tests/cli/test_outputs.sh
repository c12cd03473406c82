#!/bin/sh
# Output files and signals: no incomplete file remains, links stay links, an error has its reason, and a model file that
# shrinks while it is open is reported.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
ids=$(awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s%d", i ? "," : "", i % 300 }')
mkdir "$work/target"

# wait_for COMMAND...: waits until it succeeds, for a minute at most.
wait_for() {
    tries=0
    until "$@" || [ $tries = 3000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
}
something() { [ -n "$(ls -A "$work/target")" ]; }
says() { [ -s "$work/out" ]; }

# ---- a signal while a file is written (a shell without job control starts background commands with SIGINT ignored)
# interrupted SIGNAL STATUS ARGUMENTS...
interrupted() {
    sent=$1
    want=$2
    shift 2
    env --default-signal=INT,QUIT,HUP "$program" "$@" >"$work/out" 2>"$work/err" </dev/null &
    process=$!
    wait_for something
    that "$1: there is a file to remove" something
    kill -"$sent" $process
    wait $process
    status=$?
    that "$1: SIG$sent ends it, not $status" [ $status = "$want" ]
    nothing_left "$work/target"
}
env --default-signal=INT true 2>/dev/null || { echo 'skipped: env cannot set signals'; exit 77; }
"$build/tests/cli/make_dump" "$work/dump.safetensors" 2 6000 4 2 8 || exit 1
ok mkmodel --shape 100m --type q8_0 -o "$work/big.gguf" -q
for signal in 'INT 130' 'TERM 143' 'HUP 129' 'QUIT 131'; do
    interrupted $signal convert "$work/big.gguf" -o "$work/target/x.gguf" --type q3_k
    interrupted $signal convert "$work/big.gguf" -o "$work/target/x/" --type f32
    interrupted $signal logits -m "$demo" --backend ref --tokens "$ids" --out "$work/target/x.safetensors"
done
interrupted TERM 143 mkmodel --shape 100m --type f32 -o "$work/target/x.gguf"
interrupted TERM 143 replay --kv full --prompt 10 --in "$work/dump.safetensors" --out "$work/target/x.json" \
    --attn "$work/target/x.safetensors" --backend ref
rm "$work/big.gguf"
trap '' HUP # like nohup
"$program" logits -m "$demo" --backend ref --tokens "$ids" --out "$work/target/x.safetensors" >"$work/out" 2>&1 &
trap 'exit 99' HUP
wait_for something
kill -HUP $!
sleep 0.3
that 'what ignores SIGHUP continues' kill -TERM $!
wait $!
nothing_left "$work/target"

# ---- symbolic links
# linked NAME ARGUMENTS...: the command writes to NAME, a link. NAME stays a link, and its target gets the file.
linked() {
    ok "$@"
    that "$1: the link stays" [ -h "$work/link" ]
    that "$1: its target is written" [ -s "$work/target/file" ]
    that "$1: and nothing else" [ "$(ls -A "$work/target")" = file ]
}
ln -s target/file "$work/link"
for there in no yes; do
    [ $there = yes ] || rm -f "$work/target/file"
    linked replay --kv full --prompt 5990 --in "$work/dump.safetensors" --out "$work/link" -q
    [ $there = yes ] || rm "$work/target/file"
    linked convert "$demo" -o "$work/link" -q
    [ $there = yes ] || rm "$work/target/file"
    linked logits -m "$demo" --tokens 1,2,3 --out "$work/link"
done
rm "$work/target/file"
ln -s link "$work/second"
ok mkmodel --shape tiny -o "$work/second" -q
that 'a link to a link' [ -h "$work/second" -a -h "$work/link" -a -s "$work/target/file" ]
rm "$work/target/file"
ln -s loop "$work/loop"
fails 4 'loop: cannot be written: .*symbolic links' replay --kv full --prompt 5990 --in "$work/dump.safetensors" \
    --out "$work/loop" -q
fails 4 'loop: cannot be written: .*symbolic links' convert "$demo" -o "$work/loop"
ln -s none/file "$work/astray"
fails 4 'astray: cannot be written: No such file' convert "$demo" -o "$work/astray"
that 'links that lead nowhere stay' [ -h "$work/loop" -a -h "$work/astray" ]
nothing_left "$work/target"

# ---- eval: a folder made for results is removed if they cannot be written
folder_is_gone() {
    status=$({
        (ulimit -f 0; trap '' XFSZ; kv "$@" --out "$work/target/new" 2>&1 >/dev/null </dev/null; echo $? >&3) | cat >"$work/err"
    } 3>&1)
    that "a full disk is 4, not $status: $1 $2" [ "$status" = 4 ]
    check_error 'needle\.\|fidelity\.' "$1 $2"
    nothing_left "$work/target"
}
for i in 1 2 3 4; do printf 'then the old sailor found the red kettle near the harbor . '; done >"$work/text"
folder_is_gone eval needle -m "$demo" --kv streaming:budget=32 --length 100 --texts 1 --depths 1 -q
folder_is_gone eval fidelity -m "$demo" -f "$work/text" --kv streaming:budget=8 --prompt 20 --gen 4 -q
mkdir "$work/target/old"
ln -s /dev/full "$work/target/old/needle.csv"
if [ -w /dev/full ]; then
    fails 4 'needle.csv: cannot be written: No space' eval needle -m "$demo" --kv streaming:budget=32 --length 100 --texts 1 \
        --depths 1 -q --out "$work/target/old"
    that 'one of two files is none' [ "$(ls "$work/target/old")" = needle.csv ]
fi
rm -r "$work/target/old"

# ---- an output that cannot be written is reported before the model is read
missing=$work/target/none
fails 4 'none/x: cannot be written' collect -m "$work/nothing" -f "$work/text" -o "$missing/x"
fails 4 'target: is a directory' collect -m "$work/nothing" -f "$work/text" -o "$work/target"
fails 4 'none/x: cannot be written' verify --write-hashes "$missing/x"
fails 4 'none/x: cannot be written' eval needle -m "$work/nothing" --kv full --out "$missing/x"
fails 4 'none/x: cannot be written' eval fidelity -m "$work/nothing" -f "$work/text" --kv full --out "$missing/x"
fails 4 'none/x: cannot be written' eval niah -m "$work/nothing" --kv full --report "$missing/x"
fails 3 'nothing' eval needle -m "$work/nothing" --kv full --out "$work/target/new"
nothing_left "$work/target"

# ---- an output never replaces the input of the same command
ok convert "$demo" -o "$work/target/model.gguf" --type q8_0 -q
ok convert "$demo" -o "$work/target/folder/" --type f32 -q
cp "$work/text" "$work/dump.safetensors" "$work/target"
ln -s ../text "$work/target/folder/link"
find "$work/target" -type f -exec cksum {} + | sort >"$work/sums"
stays() {
    fails 2 'is an input of this command' "$@"
    find "$work/target" -type f -exec cksum {} + | sort >"$work/sums.now"
    that "$1: everything is as it was" cmp -s "$work/sums" "$work/sums.now"
}
for model in "$work/target/model.gguf" "$work/target/folder/model.safetensors"; do
    stays logits -m "${model%/model.safetensors}" --tokens 1,2 -o "$model"
    stays collect -m "${model%/model.safetensors}" -f "$work/target/text" -o "$model"
    stays convert "${model%/model.safetensors}" -o "$model" --type q4_0
done
stays logits -m "$demo" -f "$work/target/text" -o "$work/target/folder/../text"
stays collect -m "$demo" -f "$work/target/text" -o "$work/target/folder/link"
stays replay --kv full --in "$work/target/dump.safetensors" --out "$work/target/dump.safetensors"
stays replay --kv full --prompt 5990 --in "$work/target/dump.safetensors" --attn "$work/target/dump.safetensors"
stays verify -m "$work/target/model.gguf" --write-hashes "$work/target/model.gguf"
stays eval merge "$work/target/text" --report "$work/target/text"
rm -r "$work/target"
mkdir "$work/target"

# ---- paths of any length with any bytes: the error's reason is visible, on one line that a terminal can show
long=$(printf '%0200d' 0)
path=$work/$long/$long/$long/$long
mkdir -p "$path"
printf 'GGUF\003\000\000\000' >"$path/cut.gguf"
echo '{}' >"$path/config.json"
echo 'text' >"$path/text"
for command in 'run -m' 'logits --tokens 1 -m' 'info' 'tokenize hello -m'; do
    fails 3 'cut.gguf: ends at byte 8' $command "$path/cut.gguf"
    fails 3 '0: the folder has neither' $command "$path"
    fails 3 'none: cannot be opened: No such file' $command "$path/none"
done
fails 3 'none: No such file' run -m "$demo" -f "$path/none"
fails 3 'text: byte 0: takes token ids' logits -m "$demo" --tokens "@$path/text"
fails 4 'out/x.gguf: cannot be written: No such file' mkmodel --shape tiny -o "$path/out/x.gguf"
fails 2 'is unknown\|no such policy\|no policy' run -m "$demo" --kv "$(printf '%04000d' 0)"
fails 3 'File name too long' run -m "$(printf '%0100000d' 0)"
awk 'BEGIN { printf "\033[31m\377\302\233\342\202\254" }' >"$work/name"
fails 3 '/?\[31m???'"$(printf '\342\202\254')"': cannot be opened' run -m "$work/$(cat "$work/name")"

# ---- names that a file contains
ok convert "$demo" -o "$work/plain.gguf" -q
LC_ALL=C sed 's/\(general\.name............\)demo/\1\x1b\xff\xc2\x9b/' "$work/plain.gguf" >"$work/odd.gguf"
ok info "$work/odd.gguf"
has '^name  *????$'
that 'names of models are made printable' [ "$(LC_ALL=C tr -d '\040-\176\n' <"$work/out" | wc -c)" = 0 ]
LC_ALL=C sed 's/\(general\.architecture............\)llama/\1\xff\xc2\x9bma/' "$work/plain.gguf" >"$work/odd.gguf"
fails 3 "???ma" info "$work/odd.gguf"

# ---- a model file that is truncated while it is open
ok convert "$demo" -o "$work/cut.gguf" --type f32 -q
mkfifo "$work/input"
for threads in 1 2; do
    cp "$work/cut.gguf" "$work/cut$threads.gguf"
    : >"$work/out"
    "$program" chat -m "$work/cut$threads.gguf" --template chatml -n 3 --threads $threads <"$work/input" >"$work/out" 2>"$work/err" &
    process=$!
    exec 8>"$work/input"
    echo 'then the old sailor' >&8
    wait_for says
    : >"$work/cut$threads.gguf"
    echo 'then the old sailor' >&8
    exec 8>&-
    wait $process
    status=$?
    that "a model that was cut short is 3, not $status" [ $status = 3 ]
    grep -v '^prompt\|^answer\|^cache\|(cut after' "$work/err" >"$work/line"
    cp "$work/line" "$work/err"
    check_error "^kvcull: .*cut$threads.gguf: cut short while it was in use" 'chat'
done
"$program" chat -m "$work/cut.gguf" --template chatml <"$work/input" >"$work/out" 2>"$work/err" &
process=$!
exec 8>"$work/input"
kill -BUS $process
exec 8>&-
wait $process
that 'a SIGBUS that is sent ends it as such' [ $? = 135 ]

# ---- a reader that stops reading
mkfifo "$work/pipe"
head -c 1 <"$work/pipe" >"$work/out" &
kv run -m "$demo" -p then -n 2000 --ignore-eos -q >"$work/pipe" 2>"$work/err"
that 'a closed pipe is 4' [ $? = 4 ]
that 'and no message' [ ! -s "$work/err" ]
finish
