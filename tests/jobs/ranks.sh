# several processes as one engine: every method, valgrind, MPICH; run with --plain
check_ranks() {
    local depend
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
    # These tests may depend on the MPI; the others are about kvcull. The matrix takes minutes: --all runs it.
    depend='failures\|pipeline\|test_ranks.sh'
    [ -z "${KVCULL_TEST_WHOLE-}" ] || depend="$depend\|matrix"
    ranks_in build/mpich "$(ranks_tests | grep "$depend")" f16
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
