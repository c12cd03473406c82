#!/bin/sh
# measure_take.sh - shows where the method take evicts one sentence of a long text, and which settings of take keep the
# sentence. Prints a table for docs/measured/take.md.
#
#     tools/measure_take.sh MODEL [BUILD_FOLDER [SPEC...]]
#
# The text is the Debian Python Policy (package python3), cut to about 6,000 tokens, with one extra sentence at 35 %.
set -u
model=${1:?a model}
build=${2:-build}
[ $# -gt 2 ] && shift 2 || shift $#
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

zcat /usr/share/doc/python3/python-policy.txt.gz | tr -s ' \n' | head -c "${BYTES-24500}" >"$work/policy" || exit 1
awk -v at="$(($(wc -l <"$work/policy") * ${PERCENT-35} / 100))" '{ print } NR == at {
    print "The duty officer of the archive is called Margaret Holloway, and the emergency telephone number is 482177." }' \
    "$work/policy" >"$work/text"
[ $# -gt 0 ] || set -- full snapkv:budget=512 take:budget=512 take:budget=512,chunk=1024 \
    take:budget=512,chunk=1024,probe_sees=chunk take:budget=512,chunk=1024,probe_pos=end \
    take:budget=512,chunk=1024,alpha=0 take:budget=512,chunk=1024,warmup_layers=0 take:budget=512,chunk=1024,per=head \
    take:budget=512,chunk=1024,kernel=5,pooling=avg take:budget=512,chunk=1024,probe_sees=chunk,kernel=5,pooling=avg
for spec; do set -- "$@" --kv "$spec"; shift; done
"$build/kvcull" eval span -m "$model" -f "$work/text" --span 'Margaret Holloway' --span 482177 -n 48 -q "$@" \
    ${OUT+--out "$OUT" --resume} ${REPORT+--report "$REPORT"} \
    -p 'What is the name of the duty officer of the archive, and what is the emergency telephone number?'
