#!/bin/sh
# kvcull eval --report: the HTML file is well-formed, loads nothing from outside, has no empty chart, shows hostile text
# as text, and a browser lays it out without overlaps at two widths.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind

well_formed() {
    if command -v xmllint >/dev/null; then
        xmllint --noout --huge "$1" 2>"$work/err"
    elif command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" 2>"$work/err"
    fi
}
# whole FILE: checks what every report must fulfill.
whole() {
    that "$1: well-formed" well_formed "$1"
    that "$1: asks for nothing" [ "$(grep -ciE '<[^>]*(src|href)=|url\(|@import|<script|<link|javascript:' "$1")" = 0 ]
    that "$1: no empty chart" awk '/<svg/ { open = 1; marks = 0 } open { marks += gsub(/<(rect|circle|path)/, "&") }
        /<\/svg>/ { if (open && !marks) exit 1; open = 0 }' "$1"
    that "$1: light and dark, wide and narrow, print" [ "$(grep -cE '^@media (.prefers-color-scheme:dark|.max-width:520px.[{]|print)' "$1")" = 3 ]
}

# ---- synthetic records: POLICIES TASKS, on standard output. The first policy's name and the answers are hostile.
made() {
    awk -v policies="$1" -v tasks="$2" 'BEGIN {
        q = "\""
        for (p = 0; p < policies; p++) {
            b = 64 * 2 ^ (p % 4)
            kv = p == 0 ? "full" : p == 1 ? "snapkv:budget=64,kernel=63,pooling=max,window=16+morphkv:budget=4096,window=32,fusion=max" : "m" int(p / 4) ":budget=" b
            for (t = 0; t < tasks; t++) for (s = 0; s < 3; s++) for (side = 0; side < 2; side++) {
                score = p == 0 ? 1 : ((p * 7 + t * 3 + s + side) % 5) / 4
                printf "{\"model\":\"<b>m</b>.gguf\",\"weights\":\"1 & 2\",\"arithmetic\":\"float 1\",\"cache_type\":\"f16\",\"prompt\":\"raw\",\"data\":\"\",\"task\":\"task_with_a_long_name_%d\",\"length\":4096,\"seed\":1,\"sample\":%d,\"kv\":\"%s\",\"question\":\"%s\",\"depth\":%.2f,", t, s, kv, side ? "unseen" : "seen", s / 2
                printf "\"prompt_hash\":\"%016x\",\"prompt_tokens\":6,\"answer\":\"<script>alert(1)</script>&\\u0001\\u202e\",\"answer_tokens\":3,\"score\":%s,\"entries\":%d,\"held_bytes\":%d,\"peak_bytes\":%d,\"read_bytes\":%d,\"steps\":10,\"prompt_us\":%d,\"answer_us\":%d}\n", t * 10 + s, score, b, p ? b * 8192 : 33554432, 40000000, p ? b * 4000 * 10 : 160000000, 1000000 + p * 1000, 50000 - p * 900
            }
            printf "{\"model\":\"<b>m</b>.gguf\",\"weights\":\"1 & 2\",\"arithmetic\":\"float 1\",\"cache_type\":\"f16\",\"prompt\":\"raw\",\"data\":\"\",\"task\":\"task_with_a_long_name_0\",\"length\":4096,\"seed\":1,\"sample\":0,\"kv\":\"%s\",\"question\":\"seen\",\"prompt_hash\":\"%016x\",\"prompt_tokens\":6,", kv, 0
            printf "\"trace\":{\"answer\":\"</details><img src=x onerror=alert(1)>\",\"context\":4,\"entries\":[[%d,2],[3,6]],\"held\":[0,1,4,2,1,3],\"text\":[\"<i>a\",\" cat\",\"\",\" ]]>\",\"\\u0002\",\"\\uffff\\ud83d\\ude00\"],\"moments\":[\"chunk 1\",\"step 3\"],\"spans\":[{\"what\":\"<u>\",\"first\":1,\"count\":2,\"prompt\":[[2,2],[2,1]],\"end\":[[2,2],[1,0]],\"broken\":[[-1,-1],[1,0]],\"gone\":[[-1,-1],[-1,1]],\"lost\":[1,2]}]}}\n", p % 7
        }
    }'
}
shapes='1 1
2 1
30 13'
sanitized && shapes='1 1
2 1'
echo "$shapes" >"$work/shapes"
while read -r policies tasks; do
    name=made-$policies-$tasks
    made "$policies" "$tasks" >"$work/$name.jsonl"
    ok eval merge "$work/$name.jsonl" --report "$work/$name.html" -q
    narrow
    whole "$work/$name.html"
    that 'hostile text is text' [ "$(grep -cE '<b>m|<script|<img|<i>a' "$work/$name.html")" = 0 ]
    for what in Leaderboard 'Quality and bytes' 'Depth and length' '>Time<' 'What stayed' 'Where it was lost'; do
        has "$what" "$work/$name.html"
    done
done <"$work/shapes"
if ! sanitized; then
    that 'every policy has its number' grep -q '<b class="num f[0-7]">30</b>' "$work/made-30-13.html"
    ok eval merge "$work/made-30-13.jsonl" --json
    that 'traces without their texts' [ "$(json traces)" = '[30]' ]
    that 'no text there' [ "$(grep -c '"text"' "$work/out")" = 0 ]
fi

# ---- runs of the bundled model, which does not know the words, and of a random model
run() { # NAME MODEL ARGUMENTS...
    name=$1
    model=$2
    shift 2
    ok eval niah_single_1 -m "$model" --raw --kv full --kv snapkv:budget=64 --kv 'take:budget=64,chunk=256' --length 700 \
        --samples 1 -q --out "$work/$name.jsonl" "$@"
}
run run "$demo" --report "$work/run.html"
narrow
whole "$work/run.html"
that 'a trace of each policy, asked both ways' [ "$(grep -c '"trace":' "$work/run.jsonl")" = 6 ]
that 'the text once' [ "$(grep -c '"text":' "$work/run.jsonl")" = 1 ]
ok eval merge "$work/run.jsonl" --report "$work/again.html"
that 'merge writes the same report' cmp -s "$work/run.html" "$work/again.html"
cp "$work/run.jsonl" "$work/before"
run run "$demo" --resume --kept 1
that 'traces are not made again' cmp -s "$work/before" "$work/run.jsonl"
kv mkmodel --shape thin --type f32 --seed 3 -o "$work/thin.gguf" -q || exit 1
run thin "$work/thin.gguf" --question seen --span magic
narrow
has 'the share of heads that hold all of tokens'
has '^full  *seen  *1.00  *1.00  *1.00  *1.00  *-'
has 'seen .* chunk [0-9]* ('
that 'the number and the given piece' [ "$(grep -c '^full  *seen  *1.00' "$work/out")" = 2 ]

# ---- depths, answers asked for, several questions, and measurements with units of their own
i=0
while [ $i -lt 120 ]; do echo "$i foxes and $((i * 7 % 31)) owls met; nobody counted them."; i=$((i + 1)); done >"$work/foxes"
ok eval kv_retrieval scb_kv perplexity -m "$work/thin.gguf" --raw --kv full --kv streaming:budget=64 --length 2000 --depths 2 \
    --samples 2 --text "$work/foxes" -q --out "$work/kinds.jsonl" --report "$work/kinds.html"
narrow
has '^kv_retrieval, sample 1 of '
has '^Prompts: .* of .* tokens computed'
that 'traces of one question alone' [ "$(grep -c '"trace":' "$work/kinds.jsonl")" = 4 ]
that 'the pair that was asked for' grep -q '"what":"\\"[0-9a-f-]*\\": \\"[0-9a-f-]*\\"' "$work/kinds.jsonl"
whole "$work/kinds.html"
for what in Leaderboard 'Depth and length: kv_retrieval' 'Where it was lost' 'Measured without a question' 'nats/token'; do
    has "$what" "$work/kinds.html"
done
that 'no score of what asks nothing' [ "$(sed -n '/<h3>Task by task/,/<h3>Quality/p' "$work/kinds.html" | grep -c perplexity)" = 0 ]
ok eval merge "$work/kinds.jsonl" --report "$work/again.html"
that 'merge writes the same report of these' cmp -s "$work/kinds.html" "$work/again.html"
grep '"unit"' "$work/kinds.jsonl" >"$work/units.jsonl"
ok eval merge "$work/units.jsonl" --report "$work/units.html"
that 'no leaderboard of nothing' [ "$(grep -c Leaderboard "$work/units.html")" = 0 ]
whole "$work/units.html"

# ---- the place where a piece of the user's text is lost
{ yes 'the cat sat on the mat and looked at the dog .' | head -n 30; echo 'the magic number for lantern 48 21 .'
    yes 'the dog looked at the cat and sat on the mat .' | head -n 30; } >"$work/text"
ok eval span -m "$demo" --raw -f "$work/text" -p 'the magic number for lantern' --span 'lantern 48 21' --kv full \
    --kv streaming:budget=64 --kv 'take:budget=64,chunk=128,probe=4' -n 4 -q --out "$work/span.jsonl" --report "$work/span.html"
narrow
has '^full .* 1.00 *1.00 *1.00 *1.00 *- '
has '^streaming:budget=64 .* 0.00 *0.00 *0.00 *0.00 *prompt (100 %)'
has '^take:.* chunk [0-9]* ('
whole "$work/span.html"
ok eval span -m "$demo" --raw -f "$work/text" -p 'the magic number for lantern' --span 'lantern 48 21' --kv full \
    --kv streaming:budget=64 -n 4 -q --json --question both
that 'both ways' [ "$(json traces)" = '[4]' ]
that 'of every head' [ "$(json traces.0.trace.spans.0.end.0.0)" -gt 2 ]
fails 2 'unicorn.: not in' eval span -m "$demo" --raw -f "$work/text" -p x --span unicorn --kv full
fails 2 'text: text, question and answer have [0-9]* tokens, more than --ctx 100' eval span -m "$demo" --raw \
    -f "$work/text" -p x --span cat --kv full --ctx 100 -q
fails 2 'no span' eval span -m "$demo" --raw -f "$work/text" -p x --kv full
fails 2 'no question' eval span -m "$demo" --raw -f "$work/text" --span cat --kv full
fails 2 'no text' eval span -m "$demo" --raw -p x --span cat --kv full

# ---- records that are refused; no computed result is lost
for change in 's/"context":4/"context":7/' 's/"held":\[0,1/"held":[0,2/' 's/\[3,6\]/[3]/' 's/"lost":\[1,2\]/"lost":[1]/' \
    's/"first":1,"count":2/"first":5,"count":2/' 's/"moments":\[/&3,/' 's/"what":"<u>",//' 's/"text":\["<i>a",/"text":[/' \
    's/"broken":\[\[-1/"broken":[[2/' 's/"trace":{/"trace":[{/; s/}}$/}]}/'; do
    sed -n '/"trace"/{p;q;}' "$work/made-1-1.jsonl" | sed "$change" >"$work/wrong.jsonl"
    fails 3 'line 1: not a result' eval merge "$work/wrong.jsonl"
done
fails 2 'the name is empty' eval merge "$work/run.jsonl" --report ''
fails 2 'standard output' eval merge "$work/run.jsonl" --report -
fails 4 'none' eval merge "$work/run.jsonl" --report "$work/none/x.html"
fails 4 'none' eval niah_single_1 -m "$demo" --raw --kv full --length 1024 -q --report "$work/none/x.html"
mkdir "$work/folder"
(ulimit -f 8; trap '' XFSZ; kv eval merge "$work/run.jsonl" --report "$work/folder/x.html" -q >"$work/out" 2>"$work/err")
that 'a full disk is 4' [ $? = 4 ]
check_error 'cannot be written' 'a full disk'
nothing_left "$work/folder"
has '^full' # the tables were printed before

# ---- in a browser
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if sanitized || [ -z "$browser" ]; then
    echo 'no chromium, or a build with sanitizers: the layout is not looked at'
    finish
fi
# laid_out FILE WIDTH: what report_check.js finds in a frame of that width; a picture goes to REPORT_PICTURES
laid_out() {
    { sed '/<\/body>/,$d' "$1"; echo '<script>'; cat "$source/tests/eval/report_check.js"; echo '</script></body></html>'; } \
        >"$work/checked.html"
    printf '<!DOCTYPE html><html><body style="margin:0"><iframe id="f" style="border:0;width:%spx;height:%spx" src="checked.html"></iframe><pre id="said">nothing</pre><script>window.onmessage = (e) => { document.getElementById("said").textContent = e.data; };</script></body></html>' \
        "$2" 6000 >"$work/frame.html"
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size=1400,6100 \
        --virtual-time-budget=20000 --dump-dom "file://$work/frame.html" >"$work/out" 2>"$work/err"
    said=$(sed -n 's/.*<pre id="said">\([^<]*\)<.*/\1/p' "$work/out")
    if [ "$said" = FINE ]; then good; else bad "$1 at $2: $said"; fi
    if [ -n "${REPORT_PICTURES-}" ]; then
        cp "$1" "$REPORT_PICTURES/"
        timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --hide-scrollbars \
            --window-size="$2,${3-4000}" --screenshot="$REPORT_PICTURES/$(basename "$1" .html)-$2.png" "file://$1" 2>/dev/null
    fi
}
if in_full; then
    for name in made-1-1 made-2-1 run span kinds units; do
        for width in 1280 390; do laid_out "$work/$name.html" $width; done
    done
else
    laid_out "$work/kinds.html" 390
fi
for width in 1280 390; do laid_out "$work/made-30-13.html" $width; done
finish
