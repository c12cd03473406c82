#!/bin/sh
# The modules of MPI: a run opens the module of its launcher, and one line says why a run cannot open one.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
modules=${KVCULL_MODULES:-$build/.libs}
set -- run -m "$KVCULL_DATA/demo" -p number -n 2 -q

same 'the module of the launcher' 2 "$@"
# None is loaded without a launcher.
KVCULL_MODULES=$work/none
export KVCULL_MODULES
"$program" "$@" >"$work/out" 2>"$work/err"
that 'a single process needs no module' [ $? = 0 ]
on 2 "$@"
that 'without modules the status is 4' [ $? = 4 ]
has 'ranks: no MPI can be opened: .*its module is not beside' "$work/err"
"$program" info --json >"$work/info" 2>"$work/err"
that 'info has the reason' [ "$(grep -c 'its module is not beside' "$work/info")" -ge 1 ]

mkdir "$work/none"
for name in openmpi mpich; do
    printf 'no library' >"$work/none/kvcull-mpi-$name.so"
done
on 2 "$@"
that 'damaged modules are 4' [ $? = 4 ]
has 'ranks: no MPI can be opened: .*kvcull-mpi-[a-z]*.so: ' "$work/err"
printf 'const struct { const char *version; unsigned long bytes; void *open; } kvc_mpi_module = {"0.0.1", 8, 0};\n' >"$work/old.c"
for name in openmpi mpich; do
    ${CC:-cc} -shared -fPIC -o "$work/none/kvcull-mpi-$name.so" "$work/old.c" || exit 99
done
on 2 "$@"
that 'modules of another version are 4' [ $? = 4 ]
has 'the module belongs to another version of kvcull' "$work/err"

# The module of the other MPI finds one process where the launcher started two.
KVCULL_MODULES=$modules
"$MPIRUN" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' && other=mpich || other=openmpi
[ -e "$modules/kvcull-mpi-$other.so" ] || { finish; exit; }
KVCULL_MPI=$other
export KVCULL_MPI
on 2 "$@"
that 'another MPI than the launcher is refused' [ $? != 0 ]
has 'ranks: the launcher started 2 processes, but .* sees one' "$work/err"
finish
