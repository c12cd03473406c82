#!/bin/sh
# Kept sessions on disk: a server that ends saves them, one that begins goes on with them, and with the same bits as if
# it had not ended. Damaged files are left out with a line.
. "${top_srcdir:-.}/tests/serve/lib.sh"
slots=$work/slots
mkdir "$slots"

ends() {
    kill -TERM $pid
    wait $pid
    that "$name ends well" [ $? = 0 ]
}
serve first -m "$demo" --template chatml --sessions "$slots" -q
client test_slots.py "$url" begins "$work/known"
ends
that 'sessions were saved' [ -e "$slots/slot-2.kv" ]
cp -R "$slots" "$work/again"
cp -R "$slots" "$work/damaged"

serve second -m "$demo" --template chatml --sessions "$slots" -q
client test_slots.py "$url" goes_on "$work/known"
grep '^{' "$work/client" >"$work/hashes"
ends
that 'quietly' [ ! -s "$work/second.err" ]
serve third -m "$demo" --template chatml --sessions "$work/again" --threads 1 --backend ref -q # on another backend
client test_slots.py "$url" goes_on "$work/known"
that 'the same bits again' [ "$(grep '^{' "$work/client")" = "$(cat "$work/hashes")" ]
that 'hashes were printed' [ -s "$work/hashes" ]
ends

# ---- files that cannot be used
for file in "$work/damaged"/*.kv; do printf x | dd of="$file" bs=1 seek=3000 conv=notrunc 2>/dev/null; done
serve damaged -m "$demo" --template chatml --sessions "$work/damaged" -q
client test_slots.py "$url" begins_anew "$work/known"
that 'a line for each damaged file' \
    [ "$(grep -c 'slot-[0-9]*.kv.*begun without it' "$work/damaged.err")" = "$(ls "$work/damaged" | wc -l)" ]
ends
serve types -m "$demo" --template chatml --sessions "$slots" --kv-type q8_0 -q
client test_slots.py "$url" begins_anew "$work/known"
that 'of another type' grep -q 'slot-0.kv' "$work/types.err"
ends
mkdir "$work/few"
serve few -m "$demo" --template chatml --sessions "$work/few" --keep 1 -q
client test_slots.py "$url" begins "$work/known"
ends
that 'no more than are kept' [ "$(ls "$work/few" | wc -l)" = 1 ]
: >"$work/file"
fails 3 '--sessions' serve -m "$demo" --template chatml --sessions "$work/file" --port 0
fails 3 '--sessions' serve -m "$demo" --template chatml --sessions "$work/nothing" --port 0
finish
