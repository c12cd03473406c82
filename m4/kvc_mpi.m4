# KVC_MPI(WRAPPER): asks a compiler wrapper of MPI for its flags and sets have_openmpi, OPENMPI_CPPFLAGS and OPENMPI_LIBS,
# or the variables of MPICH for any other MPI (MPICH, Intel MPI, MVAPICH, Cray MPICH). Does nothing if the wrapper is missing,
# or if an earlier wrapper belongs to the same MPI.
AC_DEFUN([KVC_MPI], [
mpi_cppflags= mpi_libs=
for word in `$1 -show 2>/dev/null`; do
    AS_CASE([$word],
        [-I*], [mpi_cppflags="$mpi_cppflags -isystem `echo $word | sed s/^-I//`"],
        [-L*|-l*|-Wl,*|-R*], [mpi_libs="$mpi_libs $word"])
done
saved_CPPFLAGS=$CPPFLAGS saved_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $mpi_cppflags" LIBS="$mpi_libs $LIBS"
AC_MSG_CHECKING([for the MPI of $1])
AS_IF([test -z "$mpi_libs"], [mpi_kind=none],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#ifndef OPEN_MPI
#error MPICH, or an MPI that is derived from it
#endif]], [[return MPI_Ibcast(0, 0, MPI_BYTE, 0, MPI_COMM_WORLD, 0);]])], [mpi_kind=openmpi],
    [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Ibcast(0, 0, MPI_BYTE, 0, MPI_COMM_WORLD, 0);]])],
    [mpi_kind=mpich], [mpi_kind=none])])])
CPPFLAGS=$saved_CPPFLAGS LIBS=$saved_LIBS
AC_MSG_RESULT([$mpi_kind])
AS_CASE([$mpi_kind],
    [openmpi], [AS_IF([test $have_openmpi = no], [have_openmpi=yes OPENMPI_CPPFLAGS=$mpi_cppflags OPENMPI_LIBS=$mpi_libs])],
    [mpich], [AS_IF([test $have_mpich = no], [have_mpich=yes MPICH_CPPFLAGS=$mpi_cppflags MPICH_LIBS=$mpi_libs])])
AS_IF([test $mpi_kind != none && test -z "$mpi_first"], [mpi_first=$1])
])
