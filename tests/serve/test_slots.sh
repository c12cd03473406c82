#!/bin/sh
# Cached sessions on disk: a server saves them when it ends, and continues them after a restart with bit-identical
# results. It does not change files that it did not load. Only one server can use the folder at a time. A full disk
# loses nothing.
. "${top_srcdir:-.}/tests/serve/lib.sh"
slots=$work/slots # the server creates it

ends() {
    kill -TERM $pid
    wait $pid
    status=$?
    that "$name ends with ${1-0}, not $status" [ $status = "${1-0}" ]
}
# sums FOLDER: checksums of every file in it
sums() { (cd "$1" && cksum -- *); }
# stays FOLDER ARGUMENTS...: a server with this folder starts and ends, and the folder is unchanged.
stays() {
    folder=$1
    sums "$folder" >"$work/sums"
    shift
    serve stays --sessions "$folder" -q "$@"
    ends
    sums "$folder" >"$work/sums.now"
    that "as it was: $*" cmp -s "$work/sums" "$work/sums.now"
    that "and no lock stays: $*" [ ! -e "$folder/.kvcull-lock" ]
}
serve first -m "$demo" --template chatml --sessions "$slots" -q
client test_slots.py "$url" begins "$work/known"
ends
that 'sessions were saved' [ -e "$slots/slot-2.kv" ]
that 'the folder is private' [ "$(stat -c %a "$slots")" = 700 ]
stays "$slots" -m "$demo" --template chatml
cp -R "$slots" "$work/again"
cp -R "$slots" "$work/damaged"

serve second -m "$demo" --template chatml --sessions "$slots" -q
client test_slots.py "$url" goes_on "$work/known"
grep '^{' "$work/client" >"$work/hashes"
ends
that 'quietly' [ ! -s "$work/second.err" ]
serve third -m "$demo" --template chatml --sessions "$work/again" --threads 1 --backend ref -q # with another backend
client test_slots.py "$url" goes_on "$work/known"
that 'the same bits again' [ "$(grep '^{' "$work/client")" = "$(cat "$work/hashes")" ]
that 'hashes were printed' [ -s "$work/hashes" ]
ends

# ---- unusable files stay unchanged
for file in "$work/damaged"/*.kv; do printf x | dd of="$file" bs=1 seek=3000 conv=notrunc 2>/dev/null; done
cp -R "$work/damaged" "$work/more"
serve damaged -m "$demo" --template chatml --sessions "$work/damaged" -q
client test_slots.py "$url" begins_anew "$work/known"
that 'a line for each damaged file' \
    [ "$(grep -c 'slot-[0-9]*.kv.*skipped' "$work/damaged.err")" = "$(ls "$work/damaged" | wc -l)" ]
ends
for file in "$work/more"/*.kv; do that 'it stays' cmp -s "$file" "$work/damaged/${file##*/}"; done
that 'beside what is kept now' [ "$(ls "$work/damaged" | wc -l)" -gt "$(ls "$work/more" | wc -l)" ]
ok mkmodel --shape tiny --seed 3 -o "$work/other.gguf" -q
ok run -m "$demo" -p x -n 1 --save "$work/again/slot-100.kv" -q # not saved by a server
echo 'a text' >"$work/again/slot-101.kv"
echo 'a text' >"$work/again/slot-007.kv"
for how in '--kv-type q8_0' '--keep 0' '--keep 1' '--mem 1M'; do
    stays "$work/again" -m "$demo" --template chatml $how
done
stays "$work/again" -m "$work/other.gguf" --template chatml
that 'of another model: a line for each' [ "$(grep -c 'the file is unchanged' "$work/stays.err")" -ge 4 ]
cp -R "$work/again" "$work/types"
serve types -m "$demo" --template chatml --sessions "$work/types" --kv-type q8_0 -q
client test_slots.py "$url" begins_anew "$work/known"
that 'of another type' grep -q 'slot-[0-9]*.kv: kv-type' "$work/types.err"
ends
for file in "$work/again"/*.kv; do that 'it stays' cmp -s "$file" "$work/types/${file##*/}"; done
that 'beside what is kept now' [ "$(ls "$work/types" | wc -l)" -gt "$(ls "$work/again" | wc -l)" ]

# ---- the most recently used come first, with or without gaps in the numbers
serve talks -m "$demo" --sessions "$work/two" -q
client test_slots.py "$url" talks "$work/talks"
bytes=$(sed -n 's/^bytes //p' "$work/client")
ends
mv "$work/two/slot-1.kv" "$work/two/slot-12.kv"
cp -R "$work/two" "$work/few"
serve gap -m "$demo" --sessions "$work/two" -q
client test_slots.py "$url" holds_two "$work/talks"
ends
serve narrow -m "$demo" --sessions "$work/two" --mem $((bytes * 3 / 4)) -q
tries=0 # sessions are loaded after the start
until grep -q 'no room' "$work/narrow.err" || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done
ends
that 'the older one has no room' grep -q 'slot-0.kv: there is no room' "$work/narrow.err"
that 'that alone' [ "$(grep -c 'no room' "$work/narrow.err")" = 1 ]
serve few -m "$demo" --sessions "$work/few" --keep 1 -q
client test_slots.py "$url" the_last_goes_on "$work/talks"
ends
that 'the older one was not loaded and stays' cmp -s "$work/few/slot-0.kv" "$work/two/slot-0.kv"
that 'the other has been used again' [ "$(cd "$work/few" && ls)" = "slot-0.kv
slot-13.kv" ]

# ---- a full disk: a session that cannot be saved replaces nothing
sums "$work/two" >"$work/sums"
ulimit -S -f 40
trap '' XFSZ
serve full -m "$demo" --sessions "$work/two" --keep 2 -q
ulimit -S -f unlimited
trap - XFSZ
client test_slots.py "$url" talks "$work/talks"
ends 4
that 'it says so' grep -q 'sessions could not be saved' "$work/full.err"
sums "$work/two" >"$work/sums.now"
that 'nothing is lost' cmp -s "$work/sums" "$work/sums.now"

# ---- one server at a time
serve first -m "$demo" --sessions "$work/two" -q
fails 4 'two: another process is writing it' serve -m "$demo" --template chatml --sessions "$work/two" \
    --port "${url##*:}" # the port is in use: the server would end in any case
ends
: >"$work/file"
fails 3 '--sessions' serve -m "$demo" --template chatml --sessions "$work/file" --port 0
fails 4 '--sessions' serve -m "$demo" --template chatml --sessions "$work/none/folder" --port 0
finish
