# several processes as one engine: every method, valgrind, MPICH; run with --plain
check_ranks() {
    provide mpi valgrind
    build_in build
    ranks_in build "$(ranks_tests | xargs grep -l KVCULL_TEST_WHOLE)" f32 f16 q8_0 # --plain runs the others
    if [ "$(manager)" != apt-get ]; then
        say 'ranks: other systems have one MPI at a time; MPICH is not tried'
        add 0 0 1
        return
    fi
    provide mpich
    build_in build/mpich MPICC=mpicc.mpich --with-opencl=no --with-server=no
    # behavior that may depend on the MPI; the other tests are about kvcull
    ranks_in build/mpich "$(ranks_tests | grep 'failures\|matrix\|pipeline\|test_ranks.sh')" f16
}

# ranks_in DIR TESTS TYPE...: runs these tests in full with the MPI of that build, for these entry types.
ranks_in() {
    local dir=$1 tests=$2 start=$SECONDS status log=$1/ranks.log before=$failed
    shift 2
    step "building the tests of $dir" "$dir/build-tests.log" make -C "$dir" -j"$jobs" check TESTS=
    find "$dir" -name '*.trs' -not -path "$dir/*/tests/*" -exec rm -f {} +
    KVCULL_TEST_WHOLE=yes KVCULL_TEST_TYPES=$* make -C "$dir" -k check-TESTS TESTS="$(echo "$tests" | paste -sd " ")" </dev/null >"$log" 2>&1
    status=$?
    say "ranks in $dir: $((SECONDS - start)) s"
    count "$dir"
    [ $status = 0 ] || show_failures "$dir"
    [ $status = 0 ] || [ $failed != "$before" ] || { tail -n 30 "$log" >&2; failed=$((failed + 1)); }
}

ranks_tests() { find tests/ranks -name 'test_*.sh' | sort; }
