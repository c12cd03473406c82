# puts faults into a copy of the tree (tests/mutants/list.txt): a test of --fast must notice each
check_mutants() {
    local name file test case old new
    local tree=build/mutants/tree dir=build/mutants/build
    provide cmocka
    mkdir -p build/mutants
    python_packages
    # The faults are put into a copy of the tree, whose build folder is kept from run to run.
    list_files | copy_files "$tree"
    KVCULL_DEV_LOCKED=yes within "$tree/dev" build >build/mutants/build.log 2>&1 9>&- ||
        { tail -n 20 build/mutants/build.log >&2; failure 'mutants: the tree does not build'; return; }
    while IFS=$'\t' read -r name file test case old new; do
        mutant "$PWD/$tree" "$name" "$file" "$test" "$case" "$old" "$new" </dev/null
    done < <(mutants)
}

# mutants: prints the list as lines of NAME, FILE, TEST, CASE, OLD and NEW, separated by tabs. If no case is given, CASE
# is *.
mutants() {
    awk -F ' *[|] *' '
        /^#/ || /^$/ { next }
        /^- / { old = substr($0, 3); next }
        /^\+ / { print head "\t" old "\t" substr($0, 3); next }
        { split($3, test, " "); head = $1 "\t" $2 "\t" test[1] "\t" (test[2] == "" ? "*" : test[2]) }' tests/mutants/list.txt
}

list_files() {
    if [ -e .git ]; then git ls-files -co --exclude-standard; else find . -path ./build -prune -o -type f -print; fi
}

# copy_files TREE: reads names of files and copies those that have changed.
copy_files() {
    local file
    while read -r file; do
        [ -f "$file" ] && ! cmp -s "$file" "$1/$file" || continue
        case $file in */*) mkdir -p "$1/${file%/*}" ;; *) mkdir -p "$1" ;; esac
        cp -p "$file" "$1/$file"
    done
}

# replace_text FILE OLD NEW: prints FILE with OLD replaced by NEW; status 1 unless OLD occurs exactly once.
replace_text() {
    OLD=$2 NEW=$3 awk '
        BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
        { at = index($0, old) }
        at { n++; $0 = substr($0, 1, at - 1) new substr($0, at + length(old)) }
        { print }
        END { exit n != 1 }' "$1"
}

# mutant TREE NAME FILE TEST CASE OLD NEW: puts the fault into TREE, builds the test there and runs it. The test must
# fail.
mutant() {
    local tree=$1 name=$2 file=$3 test=$4 case=$5 log status
    log=build/mutants/$(say "$name" | tr -c 'a-zA-Z0-9\n' _).log
    [ "$case" != '*' ] || case=
    replace_text "$file" "$6" "$7" >"$tree/$file.new" ||
        { rm -f "$tree/$file.new"; say "not ok: $name"; failure "mutant '$name': $file has not one '$6'"; return; }
    mv "$tree/$file.new" "$tree/$file"
    # shellcheck disable=SC2086
    (cd "$tree" && KVCULL_TEST_THINNED=1 KVCULL_DEV_LOCKED=yes within timeout 300 ./dev test $test $case) >"$log" 2>&1
    status=$?
    cp "$file" "$tree/$file"
    if [ $status = 0 ] || [ $status = 124 ] || grep -q 'does not build' "$log"; then
        say "not ok: $name: $test $case does not notice it ($log)"
        failure "mutant '$name': $test $case does not notice it"
    else
        say "ok: $name ($test $case)"
        passed=$((passed + 1))
    fi
}
