#!/bin/sh
# check.sh - runs the examples on the bundled model and checks their output.
model=$top_srcdir/data/demo
text='the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 .
then the young baker lost the green carrot behind the church . the magic number for candle 13 07 .
the quiet hunter sold the golden lemon beside the lake . question : the magic number for lantern'
failed=0

expect() { # NAME PATTERN COMMAND...
    name=$1 pattern=$2
    shift 2
    if output=$("$@" 2>&1) && printf '%s\n' "$output" | grep -q -e "$pattern"; then
        echo "ok: $name"
    else
        echo "not ok: $name, expected '$pattern' in: $output"
        failed=1
    fi
}
refuse() { # NAME STATUS COMMAND...
    name=$1 expected=$2
    shift 2
    "$@" >/dev/null 2>&1
    status=$?
    if [ "$status" -eq "$expected" ]; then echo "ok: $name"; else echo "not ok: $name, status $status"; failed=1; fi
}

examples=$top_builddir/examples
expect 'generate finds the number' '48 21' "$examples/generate" "$model" "$text" full
expect 'generate with a bounded cache' 'full would hold' "$examples/generate" "$model" "$text" snapkv:budget=40
expect 'sessions in a batch' 'morphkv:budget=40 .*same alone' \
    "$examples/sessions" "$model" "$text" full streaming:budget=40 snapkv:budget=40 morphkv:budget=40
file=$(mktemp -u)
trap 'rm -f "$file"' EXIT
expect 'a text is read once' 'entries saved' "$examples/questions" "$model" "$file" full "${text% question*}"
expect 'and asked about twice' 'lantern .*48 21' \
    "$examples/questions" "$model" "$file" " question : the magic number for lantern" " question : the magic number for candle"
expect 'a policy from outside' 'keeps 24:' "$examples/policy" "$model" "$text" fade:budget=24
refuse 'an unknown policy' 2 "$examples/policy" "$model" "$text" fade:budget=24,nosuch=1
refuse 'a missing model' 3 "$examples/generate" "$model/nosuch" "$text"
exit $failed
