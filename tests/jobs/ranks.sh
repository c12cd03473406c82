# several processes as one engine: every method, Open MPI and MPICH, valgrind
check_ranks() {
    provide mpi valgrind
    build_in build
    ranks_in build f32 f16 q8_0
    if [ "$(manager)" != apt-get ]; then
        say 'ranks: other systems have one MPI at a time; MPICH is not tried'
        add 0 0 1
        return
    fi
    provide mpich
    build_in build/mpich MPICC=mpicc.mpich --with-opencl=no --with-server=no
    ranks_in build/mpich f16
}

# ranks_in DIR TYPE...: the tests of ranks with the MPI of that build, whole, with entries of these types.
ranks_in() {
    local dir=$1 start=$SECONDS status log=$1/ranks.log before=$failed
    shift
    step "building the tests of $dir" "$dir/build-tests.log" make -C "$dir" -j"$jobs" check TESTS=
    find "$dir" -name '*.trs' -not -path "$dir/*/tests/*" -exec rm -f {} +
    KVCULL_TEST_WHOLE=yes KVCULL_TEST_TYPES=$* make -C "$dir" -k check-TESTS TESTS="$(ranks_tests)" </dev/null >"$log" 2>&1
    status=$?
    say "ranks in $dir: $((SECONDS - start)) s"
    count "$dir"
    [ $status = 0 ] || show_failures "$dir"
    [ $status = 0 ] || [ $failed != "$before" ] || { tail -n 30 "$log" >&2; failed=$((failed + 1)); }
}

ranks_tests() { find tests/ranks -name 'test_*.sh' | sort | tr '\n' ' '; }
