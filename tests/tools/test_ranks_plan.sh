#!/bin/sh
# tools/ranks_plan.py: its counts equal the bytes that ranks send; its tables for several geometries; errors.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
command -v mpirun >/dev/null || { echo 'skipped: no mpirun'; exit 77; }
planned() { # STATUS ARGUMENTS...
    wanted=$1
    shift
    python3 "$source/tools/ranks_plan.py" "$@" >"$work/out" 2>"$work/err"
    status=$?
    that "exit $status of $1, $wanted is expected" [ $status = "$wanted" ]
}

# ---- compared with runs: two and three ranks of tensor and of pipeline parallelism, and two by two
most=2 runs='2 tensor:2 pipeline' compared=6 # 3 and 4 ranks take five times as long
in_full && most=4 runs='2 tensor:3 tensor:2 pipeline:3 pipeline:4 tensor=2,pipeline=2' compared=21
planned 0 check "$program" "$demo" --most $most --gen 2
IFS=:
for run in $runs; do
    that "$run: a prompt, and steps of one and of several groups" [ "$(grep -c "^| $run |.*| yes |" "$work/out")" = 3 ]
done
unset IFS
has "^$compared compared, 0 differ\$" "$work/out"
# odd sizes: 3 layers, 2 KV heads of 3 queries, matrices that do not divide
ok mkmodel --shape tiny --type f32 -o "$work/tiny.gguf"
planned 0 check "$program" "$work/tiny.gguf" --most 3 --gen 2 --prompt 21 --chunk 8
has '^12 compared, 0 differ$' "$work/out"
# rows in eight bits
ok mkmodel --shape small --type q8_0 -o "$work/small.gguf"
planned 0 check "$program" "$work/small.gguf" --most 2 --gen 1
has '^6 compared, 0 differ$' "$work/out"
# rows in fifteen bits: only the feed-forward network of the small shape has whole blocks on each of two ranks
ok mkmodel --shape small -o "$work/floats.gguf"
for model in "$demo" "$work/floats.gguf"; do
    planned 0 check "$program" "$model" --most 2 --gen 1 --math int16
    has '^6 compared, 0 differ$' "$work/out"
done
# a model with a wrong number of layers: three tensor runs send other numbers of bytes
cat >"$work/other" <<END
#!/bin/sh
if [ "\$1" = info ]; then
    "$program" "\$@" | sed 's/"layers": 4/"layers": 5/'
else
    exec "$program" "\$@"
fi
END
chmod +x "$work/other"
planned 1 check "$work/other" "$demo" --most 2 --gen 2
has '^6 compared, 3 differ$' "$work/out"

# ---- plans: 8 query heads of 32, hidden size 128 and feed-forward size 320 give 4 (256 + 2 128 + 320) bytes per layer
# for a second rank
planned 0 plan --model "$demo" --program "$program" --ranks 1,2,4 --context 64 --prompt 64
has '^| tensor | 2 | 2 x 1 | 15.2 KB | 3.33 KB | 38 | 8 |' "$work/out"
cp "$work/out" "$work/plan"
planned 0 plan --geometry 4,128,8,2,32,320,330 --weight-bytes 4 --ranks 1,2,4 --context 64 --prompt 64
that 'a geometry is as good as a model' [ "$(sed 1d "$work/plan")" = "$(sed 1d "$work/out")" ]
planned 0 plan --shape llama-3.1-8b
that 'all ways up to 64' [ "$(grep -c '^| \(one\|tensor\|pipeline\|both\) ' "$work/out")" = 17 ]
# With a network without cost, each further rank makes a token faster. If the network dominates, none does.
planned 0 plan --shape llama-3.2-1b --latency 1e-6 --overhead 1e-6 --network 1e6
has '^A token is fastest with tensor at 64 ranks .*pipeline at 1 rank ' "$work/out"
planned 0 plan --shape llama-3.2-1b --latency 1e6
has '^A token is fastest with tensor at 1 rank .*best is one rank' "$work/out"

# ---- mistakes: one line, exit status 2
refused() { # PATTERN ARGUMENTS...
    pattern=$1
    shift
    planned 2 "$@"
    that "one line of $*" [ "$(wc -l <"$work/err")" = 1 ]
    has "^ranks_plan: .*$pattern" "$work/err"
}
refused 'required' plan
refused 'must be 7: layers' plan --geometry 4,128
refused "'0': must be a number from 1 up" plan --shape llama-3.1-8b --ranks 0
refused "'no': must be a number above 0" plan --shape llama-3.1-8b --latency no
refused 'nosuch' plan --shape nosuch
refused 'the second must divide the first' plan --geometry 4,128,7,2,32,320,330
refused 'No such file' check "$work/nosuch" "$demo"
refused 'exit 3: kvcull' check "$program" "$work/nosuch"
ok mkmodel --shape tiny-experts --type f32 -o "$work/experts.gguf"
refused 'experts' check "$program" "$work/experts.gguf"
finish
