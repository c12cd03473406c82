# several processes as one engine: every method, valgrind, MPICH; use together with --plain
check_ranks() {
    local depend
    provide mpi valgrind
    [ "$(manager)" != apt-get ] || provide mpich
    build_in build
    ranks_in "ranks" "$(ranks_tests | xargs grep -l KVCULL_TEST_WHOLE)" f32 f16 q8_0 # --plain runs the others
    if [ "$(manager)" != apt-get ]; then
        skip 'ranks with MPICH' 'other systems have one MPI at a time'
        return
    fi
    # The results of these tests may depend on the MPI library; the other tests do not. Running all combinations takes
    # minutes, so only --all does it.
    depend='failures\|pipeline\|test_ranks.sh'
    [ -z "${KVCULL_TEST_WHOLE-}" ] || depend="$depend\|matrix"
    export KVCULL_MPIRUN=mpirun.mpich
    ranks_in 'ranks with MPICH' "$(ranks_tests | grep "$depend")" f16
    unset KVCULL_MPIRUN
}

# ranks_in TITLE TESTS TYPE...: runs these tests in full, for these entry types.
ranks_in() {
    local title=$1 only=$2
    shift 2
    export KVCULL_TEST_TYPES=$*
    settings=KVCULL_TEST_WHOLE=yes run_tests "$title" build
    unset KVCULL_TEST_TYPES
}

ranks_tests() { find tests/ranks -name 'test_*.sh' | sort; }
