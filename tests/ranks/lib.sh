# lib.sh - shared by the tests of ranks: starts processes. A build without MPI skips these tests.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
[ -n "${MPIRUN-}" ] || { echo 'this build has no MPI, or there is no mpirun'; exit 77; }
sanitized && { echo 'elsewhere: ./dev check --plain runs several processes, without sanitizers'; exit 77; }
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OCL_ICD_VENDORS=$work/none
TMPDIR=/tmp # names of Open MPI's sockets have 100 bytes at most
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OCL_ICD_VENDORS TMPDIR
# Open MPI starts no more processes than cores unless told to; processes bound to cores would share them badly.
start=$MPIRUN
"$MPIRUN" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' && start="$MPIRUN -q --oversubscribe --bind-to none"

# The program itself instead of libtool's script, which each process would run.
each=$program
on() { # RANKS ARGUMENTS...: the program as so many processes; what hangs ends after five minutes, with status 124
    count=$1
    shift
    timeout 300 $start -n "$count" "$each" "$@" >"$work/out" 2>"$work/err" </dev/null
}
same() { # WHAT RANKS ARGUMENTS...: it succeeds
    what=$1
    shift
    on "$@"
    status=$?
    if [ $status = 0 ]; then good; else bad "exit $status of $what on $1 ranks"; fi
}
# Only the program's lines: mpirun adds lines of its own.
said() { grep '^kvcull' "$work/err" >"$work/said"; }
one_line() { # PATTERN WHAT
    said
    that "$2: one line" [ "$(wc -l <"$work/said")" = 1 ]
    has "$1" "$work/said"
}
