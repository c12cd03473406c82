#!/bin/sh
# mpi_plugin.sh - compiles the plug-in with which a program from a release tarball runs on several machines. The plug-in is
# for the MPI on this machine.
#
#     tools/mpi_plugin.sh FOLDER
#
# FOLDER: the unpacked tarball; the sources that contain this script must be of the same version. MPICC: the compiler
# wrapper of MPI (default: mpicc). Needs no other library and no configure.
set -eu
fail() { echo "mpi_plugin: $*" >&2; exit 1; }
[ $# = 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.."
mpicc=${MPICC:-mpicc}
[ -e "$folder/lib/libkvcull.so.0" ] || fail "$folder has no lib/libkvcull.so.0: must be an unpacked tarball, not the static one"
version=$(sed -n 's/^#define KVC_VERSION "\(.*\)".*/\1/p' include/kvcull.h)
has=$("$folder/bin/kvcull" --version | awk 'NR == 1 { print $2 }')
[ "$has" = "$version" ] || fail "$folder/bin/kvcull is version $has, but these sources are version $version"
command -v "$mpicc" >/dev/null || fail "no $mpicc: MPICC must be the compiler wrapper of MPI"
macros=$(echo '#include <mpi.h>' | "$mpicc" -E -dM -x c -) || fail "$mpicc cannot compile a program with mpi.h"
case $macros in *'#define OPEN_MPI '*) kind=openmpi ;; *) kind=mpich ;; esac
mkdir -p "$folder/lib/kvcull"
plugin=$folder/lib/kvcull/kvcull-mpi-$kind.so
sources=$(sed -n 's/^KVC_MPI_SOURCES = //p' ranks/ranks.mk)
# shellcheck disable=SC2086
"$mpicc" -std=gnu11 -O2 -fPIC -fvisibility=hidden -pthread -D_GNU_SOURCE -I. -Iinclude $sources -shared -o "$plugin" ||
    fail "$mpicc cannot compile the plug-in"
"$folder/bin/kvcull" info | grep -E '^(Open MPI|MPICH) .* yes ' || fail "$folder/bin/kvcull cannot open $plugin; kvcull info says why"
