#!/bin/sh
# The plug-ins of MPI: a run opens the plug-in of its launcher, and one line says why a run cannot open one.
. "${top_srcdir:-.}/tests/ranks/lib.sh"
plugins=${KVCULL_PLUGINS:-$build/.libs}
set -- run -m "$KVCULL_DATA/demo" -p number -n 2 -q

same 'the plug-in of the launcher' 2 "$@"
# None is loaded without a launcher.
KVCULL_PLUGINS=$work/none
export KVCULL_PLUGINS
"$program" "$@" >"$work/out" 2>"$work/err"
that 'a single process needs no plug-in' [ $? = 0 ]
on 2 "$@"
that 'without plug-ins the status is 4' [ $? = 4 ]
has 'ranks: cannot open any MPI: .*its plug-in is in no folder' "$work/err"
"$program" info --json >"$work/info" 2>"$work/err"
that 'info has the reason' [ "$(grep -c 'its plug-in is in no folder' "$work/info")" -ge 1 ]

mkdir "$work/none"
for name in openmpi mpich; do
    printf 'no library' >"$work/none/kvcull-mpi-$name.so"
done
on 2 "$@"
that 'damaged plug-ins are 4' [ $? = 4 ]
has 'ranks: cannot open any MPI: .*kvcull-mpi-[a-z]*.so: ' "$work/err"
printf 'const struct { const char *version; unsigned long bytes; void *open; } kvc_mpi_plugin = {"0.0.1", 8, 0};\n' >"$work/old.c"
for name in openmpi mpich; do
    ${CC:-cc} -shared -fPIC -o "$work/none/kvcull-mpi-$name.so" "$work/old.c" || exit 99
done
on 2 "$@"
that 'plug-ins of another version are 4' [ $? = 4 ]
has 'the plug-in belongs to another version of kvcull' "$work/err"

KVCULL_MPI=pmi2
export KVCULL_MPI
on 2 "$@"
that 'an unknown MPI is 2' [ $? = 2 ]
has 'KVCULL_MPI=pmi2: must be openmpi or mpich' "$work/err"
unset KVCULL_MPI

# The plug-in of the other MPI finds one process where the launcher started two.
KVCULL_PLUGINS=$plugins
"$MPIRUN" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' && other=mpich || other=openmpi
if [ -e "$plugins/kvcull-mpi-$other.so" ]; then
    KVCULL_MPI=$other
    export KVCULL_MPI
    on 2 "$@"
    that 'another MPI than the launcher is refused' [ $? != 0 ]
    has 'ranks: the launcher started 2 processes, but .* reports only one' "$work/err"
fi

# A program without plug-ins, in the folders of a release tarball, gets one from tools/mpi_plugin.sh.
unset KVCULL_MPI KVCULL_PLUGINS
mkdir -p "$work/unpacked/bin" "$work/unpacked/lib"
cp "$program" "$work/unpacked/bin/kvcull" && each=$work/unpacked/bin/kvcull
for arguments in '' "$work/none"; do
    # shellcheck disable=SC2086
    sh "$source/tools/mpi_plugin.sh" $arguments >"$work/out" 2>"$work/err"
    that "mpi_plugin.sh $arguments fails" [ $? != 0 ]
    has 'mpi_plugin' "$work/err"
done
cp "$build/.libs/libkvcull.so.0" "$work/unpacked/lib" && LD_LIBRARY_PATH=$work/unpacked/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
MPICC=$(echo "$MPIRUN" | sed 's/mpirun/mpicc/') OMPI_CC=cc MPICH_CC=cc
export MPICC OMPI_CC MPICH_CC LD_LIBRARY_PATH
on 2 "$@"
that 'the program has no plug-in yet' [ $? = 4 ]
sh "$source/tools/mpi_plugin.sh" "$work/unpacked" >"$work/out" 2>"$work/err"
that 'mpi_plugin.sh makes one' [ $? = 0 ]
has ' yes .*lib'
same 'its plug-in' 2 "$@"
finish
