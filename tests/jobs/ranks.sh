# several processes as one engine: every method, valgrind, MPICH; run with --plain
check_ranks() {
    provide mpi valgrind
    build_in build
    ranks_in build "$(ranks_tests | xargs grep -l KVCULL_TEST_WHOLE)" f32 f16 q8_0 # --plain runs the others
    if [ "$(manager)" != apt-get ]; then
        skip 'ranks with MPICH' 'other systems have one MPI at a time'
        return
    fi
    provide mpich
    configured build/mpich MPICC=mpicc.mpich --with-opencl=no --with-server=no
    step 'building build/mpich' build/mpich/build.log within make -C build/mpich -j"$jobs" kvcull tests/cli/json_value \
        tests/ranks/flow
    # behavior that may depend on the MPI; the other tests are about kvcull
    ranks_in build/mpich "$(ranks_tests | grep "failures\|pipeline\|test_ranks.sh${KVCULL_TEST_WHOLE:+\\|matrix}")" f16
}

# ranks_in DIR TESTS TYPE...: runs these tests in full with the MPI of that build, for these entry types.
ranks_in() {
    local dir=$1 only=$2
    shift 2
    export KVCULL_TEST_TYPES=$*
    settings=KVCULL_TEST_WHOLE=yes at_once=1 run_tests "ranks in $dir" "$dir"
    unset KVCULL_TEST_TYPES
}

ranks_tests() { find tests/ranks -name 'test_*.sh' | sort; }
