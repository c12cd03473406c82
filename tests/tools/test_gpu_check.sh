#!/bin/sh
# tools/gpu-check on the CPU with small sizes: every part runs, and every goal gets its number.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
sanitized && { echo 'elsewhere: ./dev check --plain runs this; its parts have time limits, and sanitizers take longer'; exit 77; }
command -v bash >/dev/null || { echo 'skipped: no bash'; exit 77; }
check=$source/tools/gpu-check
report=$work/check/report.md
TMPDIR=$work/temporary
export TMPDIR
mkdir "$TMPDIR"
bash "$check" --try cpu "$program" "$work/check" >"$work/out" 2>"$work/err"
that 'all parts are done' [ $? = 0 ]
that 'twenty of them' [ "$(grep -c ': done, [0-9]* s$' "$work/out")" = 20 ]
that 'goals' [ "$(grep -c '^| .* | at [lm][a-z]* [0-9.]* | m[a-z]* |$' "$report")" = 12 ]
that 'each of them measured' [ "$(grep -c 'not measured\|nan\|inf |' "$report")" = 0 ]
nothing_left "$TMPDIR"
that 'all parts together end in less than 10 minutes' \
    [ "$(sed -n 's/^ *\(\[.*|| \)*part \([0-9]*\) .*/\2/p' "$check" | awk '$1 != 60 { n += $1 } END { print n }')" -lt 600 ]
bash "$check" --try cpu "$work/none" "$work/failed" >"$work/out" 2>"$work/err"
that 'a program that fails is told' [ $? = 1 ]
that 'nothing was measured' [ "$(grep -c '| not measured | .* | missed |$' "$work/failed/report.md")" = 12 ]
bash "$check" --nosuch >"$work/out" 2>"$work/err"
that 'an unknown option is 2' [ $? = 2 ]
that 'help' [ "$(bash "$check" --help | grep -c '^gpu-check ')" = 2 ]
if ! command -v nvidia-smi >/dev/null; then
    bash "$check" "$work/nowhere" >"$work/out" 2>"$work/err"
    that 'no device is 4' [ $? = 4 ]
    that 'one line' [ "$(grep -c '^gpu-check: no nvidia-smi' "$work/err")" = 1 ]
    that 'nothing is left' [ ! -e "$work/nowhere" ]
fi
# A folder as gpu-pack fills it: nothing is built, and the program and its data are those of the folder.
pack=$source/tools/gpu-pack
for arguments in '' --nosuch '--arch' '--arch sm_90 out' 'one two'; do
    # shellcheck disable=SC2086
    bash "$pack" $arguments >"$work/out" 2>"$work/err"
    that "gpu-pack $arguments is 2" [ $? = 2 ]
    that 'and says why' [ "$(grep -c '^gpu-pack: ' "$work/err")" = 1 ]
done
bash "$pack" --from "$work/none.tar.xz" "$work/packed" >"$work/out" 2>"$work/err"
that 'no tarball is 3' [ "$?" = 3 ]
echo x >"$work/other.tar"
bash "$pack" --from "$work/other.tar" "$work/packed" >"$work/out" 2>"$work/err"
that 'neither is another file one' [ "$? $(grep -c '^gpu-pack: .*no program with CUDA' "$work/err")" = '3 1' ]
mkdir -p "$work/pack/tools" "$work/pack/bin" && cp "$check" "$source/tools/parts.sh" "$work/pack/tools/"
cp -R "$KVCULL_DATA" "$work/pack/data" && echo 'commit made-up' >"$work/pack/pack"
printf '#!/bin/sh\necho "$KVCULL_DATA $*"\nexit 1\n' >"$work/pack/bin/kvcull" && printf '#!/bin/sh\necho 9.0\n' >"$work/pack/bin/nvidia-smi"
chmod +x "$work/pack/bin/kvcull" "$work/pack/bin/nvidia-smi"
(cd "$work" && PATH=$work/pack/bin:$PATH bash "$work/pack/tools/gpu-check") >"$work/out" 2>"$work/err"
that 'a program that fails is told there, too' [ $? = 1 ]
report=$work/pack/report/report.md
that 'the pack names its commit' grep -q '^commit made-up$' "$report"
that "it uses the pack's program and data" grep -q "^$work/pack/data info backends$" "$report"
that 'it does not build' [ "$(grep -c '^## Build' "$report")" = 0 ]
bash "$work/pack/tools/gpu-check" --try cpu bin/kvcull >"$work/out" 2>"$work/err"
that 'and so when it is tried' grep -q "^$work/pack/data info backends$" "$report"
finish
