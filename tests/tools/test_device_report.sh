#!/bin/sh
# tools/device-report with small sizes: a row for each device; devices that differ, are refused or are cut short;
# errors.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
sanitized && { echo 'elsewhere: ./dev check --plain runs this; its parts have time limits, and sanitizers take longer'; exit 77; }
command -v bash >/dev/null || { echo 'skipped: no bash'; exit 77; }
tool=$source/tools/device-report
TMPDIR=$work/temporary
export TMPDIR
mkdir "$TMPDIR"
report() { bash "$tool" "$@" >"$work/out" 2>"$work/err"; status=$?; }
# wrong STATUS PATTERN ARGUMENTS...: that status, and one error line that matches.
wrong() {
    want=$1
    pattern=$2
    shift 2
    report "$@"
    that "exit $want of: $*" [ $status = "$want" ]
    that "one line of error: $*" [ "$(wc -l <"$work/err")" = 1 ]
    has "^device-report: .*$pattern" "$work/err"
}
wrong 2 'no such option' --nosuch
wrong 2 'needs a value' --device
wrong 2 'a number from 0 to 999' --seconds soon
wrong 4 'no such program; ./dev build' "$work/none"
# Fake programs: one prints the output of a build without OpenCL, the other that of a machine without a driver.
fake() {
    printf '#!/bin/sh\ncat <<X\n{ "backends": [\n    {\n      "name": "%s",\n      "devices": []\n    } ] }\nX\n' "$1" >"$work/kvcull"
    chmod +x "$work/kvcull"
}
fake ref
wrong 4 'built without OpenCL and CUDA' "$work/kvcull"
fake opencl
wrong 4 'no OpenCL or CUDA device here' "$work/kvcull"
printf '#!/bin/sh\necho broken >&2\nexit 1\n' >"$work/kvcull"
wrong 4 'info backends failed: broken' "$work/kvcull"
report --help
that 'help' [ $status = 0 ]
has '^device-report --header'
report --header
that 'a header of two lines' [ "$(wc -l <"$work/out")" = 2 ]
cells() { sed 's/\\|//g; s/[^|]//g' | sort -u; }
that 'as many cells in both' [ "$(cells <"$work/out" | wc -l)" = 1 ]
cells <"$work/out" >"$work/cells"
# The table of docs is what the tool writes.
grep '^|' "$source/docs/measured/devices.md" >"$work/table"
that 'the header of docs/measured/devices.md' [ "$(head -n 2 "$work/table")" = "$(cat "$work/out")" ]
that 'its rows' [ "$(cells <"$work/table")" = "$(cat "$work/cells")" ]

kv verify --backend opencl:0 --only methods --kv full --prompt 3 --gen 1 -q >"$work/out" 2>"$work/err"
if [ $? = 4 ]; then

    [ $failed = 0 ] && { echo "skipped: no OpenCL device that can be exact"; exit 77; }
    finish
fi
wrong 4 'opencl:nosuch: no such device' "$program" --device opencl:nosuch
wrong 4 'opencl:77: no such device' "$program" --device opencl:77
wrong 4 'cuda:77: no such device' "$program" --device opencl:0 --device cuda:77

# cell N: of the first row.
cell() { sed 's/\\|/!/g' "$rows" | head -n 1 | cut -d '|' -f $(($1 + 1)); }
few="--try --device opencl:0 --seconds 500 --out $work/report"
rows=$work/report/rows.md
# Compiling the kernels for GPUs and measuring the device take a minute, so the CPU backend fills these cells.
cat >"$work/kvcull" <<END
#!/bin/sh
case "\$KVCULL_OPENCL_SHAPE \$*" in
gpu* | *' bench '*) "$program" \$(echo " \$*" | sed 's/ opencl:0 / cpu /') | sed 's/^cpu /opencl:0 /' ;;
*) exec "$program" "\$@" ;;
esac
END
chmod +x "$work/kvcull"
tested=$work/kvcull
in_full && tested=$program
report "$tested" $few
that 'the same bits' [ $status = 0 ]
that 'a row' [ "$(wc -l <"$rows")" = 1 ]
that 'as many cells as the header' [ "$(cells <"$rows")" = "$(cat "$work/cells")" ]
that 'printed too' [ "$(tail -n 1 "$work/out")" = "$(cat "$rows")" ]
that 'the device is named' [ -n "$(cell 1 | grep ' GiB ')" ]
that 'its driver' [ -z "$(cell 2 | grep -x ' *\|.*unknown.*')" ]
that 'the version' [ -n "$(cell 4 | grep '^ [0-9.]* (arithmetic [0-9]*) $')" ]
that 'the self-test' [ "$(cell 6)" = ' passed ' ]
that 'operations' [ -n "$(cell 7 | grep '^ *[0-9]*[0-9][0-9] equal ([cg]pu) $')" ]
that 'methods' [ "$(cell 8)" = ' 2 equal ' ]
that 'the other shape, on a CPU' [ -n "$(cell 9 | grep '^ *[0-9]*[0-9][0-9] equal (gpu) $\|^ - $')" ]
that 'speeds' [ -n "$(cell 10 | grep '^ linear [0-9.]*, attention [0-9.]* $')" ]
that 'a time' [ -n "$(cell 11 | grep '^ [0-9]* s $')" ]
that 'no folder is named' [ -z "$(grep -F -e "$build" -e "$work" -e "${HOME:-/none}/" "$work/report/"*)" ]
that 'the report has the row' grep -qxF "$(cat "$rows")" "$work/report/report.md"
nothing_left "$TMPDIR"

# A program that skips everything except the operations in the device's own shape.
cat >"$work/kvcull" <<END
#!/bin/sh
case "\$KVCULL_OPENCL_SHAPE \$*" in
gpu* | *' bench '* | *'--prompt 30'*) exit 0 ;;
esac
exec "$program" "\$@"
END
chmod +x "$work/kvcull"
KVCULL_INJECT=norm report "$work/kvcull" $few
that 'other bits are 1' [ $status = 1 ]
that 'which operation' [ -n "$(cell 7 | grep '^ norm: [1-9][0-9]* differ ')" ]
KVCULL_OPENCL_LACKS=fma report "$program" $few
that 'refused is 1' [ $status = 1 ]
that 'why' [ -n "$(cell 6 | grep '^ refused: fma(.*) is .*, should be .* (fused multiply-add is not one rounding) $')" ]
that 'nothing is compared then' [ "$(cell 7)" = ' - ' ]
that 'as many cells' [ "$(cells <"$rows")" = "$(cat "$work/cells")" ]
# The same program, except that its comparison of operations never ends.
cat >"$work/kvcull" <<END
#!/bin/sh
case "\$*" in
*'--only operations'*) exec sleep 60 ;;
verify*) exit 0 ;;
esac
exec "$program" "\$@"
END
chmod +x "$work/kvcull"
report "$work/kvcull" --try --device opencl:0 --seconds 9 --out "$work/report"
that 'cut short is 1' [ $status = 1 ]
that 'which part' [ -n "$(cell 7 | grep 'cut short')" ]
that 'what had no time' [ "$(cell 8)" = ' not run, no time left ' ]
that 'in its time' [ "$(cell 11 | tr -cd '0-9')" -le 12 ]
finish
