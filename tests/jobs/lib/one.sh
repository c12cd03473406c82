# one.sh - ./dev test: runs one test and builds only what this test needs; sourced by dev.

# one_test NAME [CASE], or one_test --for FILE.
one_test() {
    local name case=${2-}
    [ $# -ge 1 ] && [ $# -le 2 ] || { complain 'test takes a NAME and a CASE, or --for FILE'; exit 2; }
    if [ "$1" = --for ]; then
        tests_for "$case"
        return
    fi
    name=$(test_file "$1") || exit 2
    locked
    # Does not change the options of a build that ./dev build made.
    if [ ! -e build/options ] || grep -qe --enable-assertions build/options; then with_assertions; fi
    provide cmocka
    configured build
    build_test build "$name" || exit 1
    run_test build "$name" "$case"
}

# test_file NAME: the test's name in the makefile: a program without .c, a script with .sh.
test_file() {
    local found
    found=$(find tests examples -name "$(basename "$1" | sed 's/\.\(c\|sh\)$//').*" |
        grep -E '^tests/[a-z]+/(test_[a-z0-9_]*|fuzz_[a-z]*)\.(c|sh)$|^examples/check\.sh$' |
        case $1 in */*) grep -F "${1#./}" ;; *) cat ;; esac)
    [ -n "$found" ] || { complain "no test '$1': a file tests/FOLDER/test_NAME.c or .sh"; return 2; }
    [ "$(say "$found" | wc -l)" = 1 ] || { complain "'$1' names several tests:"; say "$found" >&2; return 2; }
    case $found in
    *.sh) say "$found" ;;
    */fuzz_*) say "$found" | sed 's|/fuzz_|/seeds_|; s|\.c$||' ;;
    *) say "${found%.c}" ;;
    esac
}

# build_test DIR NAME: builds a test program alone. For a script, builds everything except test programs, and the test
# programs that the script names.
build_test() {
    local targets=$2 program text
    case $2 in *.sh)
        targets=all
        text=$(cat "$2")
        # While make remakes the Makefile, it prints commands. This is done first, so that list-tests prints only names.
        make -C "$1" Makefile >/dev/null 2>&1 9>&-
        for program in $(make -s --no-print-directory -C "$1" list-tests); do
            case $program in *.sh) ;; *) [[ $text != *"${program#tests/}"* ]] || targets="$targets $program" ;; esac
        done
        [[ $text != *tests/cuda/emulated* ]] || targets="$targets tests/cuda/emulated"
        ;;
    esac
    # shellcheck disable=SC2086
    make -C "$1" -j"$jobs" $targets </dev/null >"$1/build-test.log" 2>&1 9>&- ||
        { tail -n 30 "$1/build-test.log" >&2; complain "$2 does not build"; return 1; }
}

# run_test DIR NAME [CASE]: runs the test as make check does, and shows its output. A script's exit status 77 means that
# it was skipped.
run_test() {
    local dir=$1 name=$2 case=${3-} run status
    case $name in
    *.sh)
        [ -z "$case" ] || [ "$name" = tests/python/test_python.sh ] ||
            { complain "$name has no cases to choose from; CASE is for programs and test_python.sh"; return 2; }
        python_packages
        run="${BASH:-/bin/sh} $PWD/$name"
        ;;
    *) run=./$name ;;
    esac
    KVCULL_TEST_CASE=$case make -s --no-print-directory -C "$dir" run-test RUN="$run" 9>&- | tee "$dir/run-test.log"
    status=${PIPESTATUS[0]}
    if [ -n "$case" ] && grep -q '0 test(s) run' "$dir/run-test.log"; then
        complain "$name has no case '$case'; its cases:"
        sed -n 's/.*cmocka_unit_test[a-z_]*(\([a-z0-9_]*\).*/    \1/p' "$name.c" >&2
        return 2
    fi
    [ "$status" = 0 ] || grep -q 'Error 77' "$dir/run-test.log" || return 1
}

# tests_for FILE: prints the tests that check a source file. Tests of its folder come first; among them, those first
# that name the most of what the file defines (functions, operations of a backend, the method of a policy). Names in
# headers of tests/ count for each test that includes them. If no test calls the file's functions, prints the tests of
# its folder.
tests_for() {
    local file=${1#./} test names parts count folder
    [ -f "$file" ] || { complain "test --for takes a source file, not '$1'"; exit 2; }
    names=$(names_defined "$file")
    folder=tests/${file%%/*}
    { [ -z "$names" ] || for test in $(find tests -name 'test_*.c' -o -name 'test_*.sh' -o -name 'test_*.py' | sort); do
        parts=$(sed -n 's/^#include "\(tests\/.*\)"/\1/p' "$test" | sed 'p; s/\.h$/.c/' | sort -u)
        # shellcheck disable=SC2086
        count=$(cat "$test" $parts 2>/dev/null | grep -oE -e "$names" | sort -u | wc -l)
        [ "$count" = 0 ] || case $test in
        "$folder"/*) say "1 $count $(grep -cE -e "$names" "$test") $test" ;;
        *) say "0 $count $(grep -cE -e "$names" "$test") $test" ;;
        esac
    done; } | sort -k1,1rn -k2,2rn -k3,3rn -k4 | head -n 12 |
        awk '{ printf "%-45s names %d of what it defines\n", $4, $2; n++ } END { exit !n }' ||
        find "$folder" -name "test_*$(basename "${file%/*}")*" -o -name "test_*$(basename "${file%.*}")*" | sort | grep . ||
        find "$folder" -name 'test_*' | grep '\.\(c\|sh\)$' | sort
}

# names_defined FILE: prints a pattern for everything that the file defines and a test can name.
names_defined() {
    {
        # the functions of a C file that others may call
        sed -n 's/^[a-z][A-Za-z0-9_ *]*[ *]\(\(kvc\|cli\|eval\|serve\|jinja\)_[a-z0-9_]*\)(.*/\1/p' "$1" |
            grep -vxF -e kvc_min -e kvc_max
        # operations (of ref and of the instruction sets) and kernels
        sed -n 's/^static void \([a-z0-9_]*\)(struct kvc_device \*.*/\1/p
                s/^void KVC_REF(\([a-z0-9_]*\))(struct kvc_device .*/\1/p
                s/^KVC_\(GROUP_\)\{0,1\}KERNEL(\([a-z0-9_]*\)).*/\2/p' "$1" | sed 's/.*/(->|"|case_)&\\b/'
        # a method
        sed -n 's/^ *\.name = "\([a-z0-9-]*\)",$/\1/p' "$1"
    } | sort -u | paste -sd '|'
}

# pip_installs SECONDS PACKAGE...: installs packages into build/python.
pip_installs() {
    local seconds=$1
    shift
    timeout "$seconds" build/python/bin/python -m pip --disable-pip-version-check --retries 1 --timeout 20 install "$@" \
        </dev/null >>build/python.log 2>&1
}

# python_packages [large]: exports PYTHON, an interpreter with the packages that the Python tests need: the system's, or
# one in build/python for which pip installs them. Without a network the tests skip and name what is missing. torch,
# transformers and lm-eval take some gigabytes and minutes. They are installed only with `large`, and only if there is
# room and no time limit. Otherwise the tests that need them are skipped.
python_packages() {
    local packages='cffi jsonschema matplotlib mypy numpy pytest rouge-score setuptools wheel' room
    [ -z "${PYTHON-}" ] || return 0
    if [ ! -e build/python/ready ]; then
        python3 -c 'import cffi, jsonschema, matplotlib, mypy, numpy, pytest, rouge_score, setuptools, wheel, pip' \
            2>/dev/null && return
        mkdir -p build
        (provide venv) >build/python.log 2>&1
        rm -rf build/python
        # shellcheck disable=SC2086
        { python3 -m venv build/python </dev/null >>build/python.log 2>&1 && pip_installs 300 $packages; } || return 0
        : >build/python/ready
    fi
    room=$(df -Pk build | awk 'NR == 2 { print int($4 / 1048576) }')
    if [ "${1-}" = large ] && [ -z "${KVCULL_CHECK_SECONDS-}" ] && [ "$room" -ge 16 ] && [ ! -e build/python/large ]; then
        pip_installs 900 torch transformers lm-eval && : >build/python/large
    fi
    export PYTHON=$PWD/build/python/bin/python
}
