# device.sh - adds an OpenCL runtime from pip as a device of ./dev check; sourced by jobs. To add another runtime, write
# a list of packages tests/devices/NAME.txt and a job that calls check_device.

# check_device NAME MACHINE LIBRARY: installs the packages of tests/devices/NAME.txt into build/devices/NAME, by version
# and hash, and compares all operations and methods on the OpenCL runtime LIBRARY with the reference, with both variants
# of the kernels. If the runtime is not available, this is one skipped case.
check_device() {
    local name=$1 machine=$2 library=$3 dir=$PWD/build/devices/$1 start=$SECONDS log why line before=$failed others=0
    build_in build
    mkdir -p "$dir"
    why=$(bring_device "$name" "$machine" "$library" "$dir") || {
        say "$name:"
        skip "$name" "$why"
        return
    }
    if [ -n "$why" ]; then
        failure "$name: $why"
        return
    fi
    log=$dir/check.log
    step "building the tests of $name" "$dir/build-tests.log" within make -C build -j"$jobs" \
        tests/backends/test_opencl tests/backends/test_opencl_arithmetic
    (on_device "$dir" "$library") </dev/null >"$log" 2>&1
    say "$name: $((SECONDS - start)) s"
    grep -q '^done$' "$log" || say 'not ok: ended early' >>"$log"
    grep '^not ok' "$log"
    while IFS= read -r line; do
        case $line in
        'not ok'*) failures+=("$name: ${line#not ok}") ;;
        "$other_job"*) others=$((others + 1)) ;;
        *) reasons+=("$line") ;;
        esac
    done < <(awk -v name="$name" '
        /^not ok/ { print; next }
        /^\[  FAILED  \] [a-z_]*$/ { if (!($4 in shown)) print "not ok: " $4; shown[$4] = 1; next }
        /^\[  SKIPPED \] [a-z_]*$/ { if (!($4 in shown)) print said "\t" name ": " $4; shown[$4] = 1; next }
        /^\[ RUN  / { said = ""; next }
        !/^\[/ && $0 != "" { said = $0; sub(/^skipped: /, "", said) }' "$log")
    add "$(counted '^ok\|^\[       OK' "$log")" "$(counted '^not ok\|^\[  FAILED  \] [a-z_]*$' "$log")" \
        $(($(counted '^\[  SKIPPED \] [a-z_]*$' "$log") - others))
    elsewhere=$((elsewhere + others))
    [ $failed = "$before" ] || complain "$log has it all"
}

# counted PATTERN FILE: the number of different lines that match; failures and skips are listed again at the end.
counted() { grep "$1" "$2" | sort -u | wc -l; }

# bring_device NAME MACHINE LIBRARY DIR: installs the runtime. Status 1 and a reason: it is not available here. Status 0
# and a reason: it is not the expected one.
bring_device() {
    local list=tests/devices/$1.txt dir=$4 file
    [ "$(uname -s) $(uname -m)" = "Linux $2" ] || { say "it is for Linux on $2"; return 1; }
    [ -e "$dir/vendors/$1.icd" ] && cmp -s "$list" "$dir/list" && return
    (provide pip) >"$dir/pip.log" 2>&1 || { say "pip is missing ($dir/pip.log)"; return 1; }
    rm -rf "$dir/packages" "$dir/vendors" "$dir/list"
    if ! timeout 600 python3 -m pip --disable-pip-version-check --retries 1 --timeout 20 download --no-deps \
        --only-binary :all: --require-hashes --dest "$dir/packages" -r "$list" >"$dir/pip.log" 2>&1 </dev/null; then
        grep -qi 'do not match the hashes' "$dir/pip.log" && { say "other hashes than $list has ($dir/pip.log)"; return; }
        say "pip does not bring it: $(grep -i '^error' "$dir/pip.log" | head -n 1 | cut -c 1-120)"
        return 1
    fi
    for file in "$dir"/packages/*.whl; do
        python3 -m zipfile -e "$file" "$dir/packages" >>"$dir/pip.log" 2>&1 || { say "$file does not unpack"; return; }
        rm -f "$file"
    done
    file=$(find "$dir/packages" -name "$3" | head -n 1)
    [ -n "$file" ] || { say "no $3 in the packages"; return; }
    mkdir -p "$dir/vendors"
    say "$file" >"$dir/vendors/$1.icd"
    cp "$list" "$dir/list"
}

# on_device DIR LIBRARY: the commands that run on the device. Compiled kernels are kept in DIR/cache.
on_device() {
    local dir=$1 folder
    OCL_ICD_VENDORS=$dir/vendors XDG_CACHE_HOME=$dir/cache KVCULL_DATA=$PWD/data
    KVCULL_TEST_THINNED=yes
    for folder in $(find "$dir/packages" -name '*.so*' -exec dirname {} + | sort -u); do
        LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    mkdir -p "$XDG_CACHE_HOME"
    export OCL_ICD_VENDORS XDG_CACHE_HOME KVCULL_DATA KVCULL_TEST_THINNED LD_LIBRARY_PATH
    build/kvcull info backends
    # Runs two programs at a time, because drivers compile on one core.
    device_program test_opencl >"$dir/operations.log" 2>&1 & # all operations among them
    device_program test_opencl_arithmetic
    KVCULL_OPENCL_SHAPE=gpu ok_where 'operations, as GPUs have them' \
        build/kvcull verify --backend opencl --only operations --effort 1
    KVCULL_OPENCL_SHAPE=gpu ok_where 'methods, as GPUs have them' \
        build/kvcull verify --backend opencl --only methods --prompt 70 --gen 3 # the variant for GPUs is slow on CPUs
    wait
    cat "$dir/operations.log"
    ok_where 'methods' build/kvcull verify --backend opencl --only methods --against stored
    say 'done'
}

device_program() {
    within timeout 900 "build/tests/backends/$1" || say "not ok: $1"
}

ok_where() {
    local title=$1
    shift
    if within timeout 900 "$@"; then say "ok $title"; else say "not ok: $title (status $?)"; fi
}
