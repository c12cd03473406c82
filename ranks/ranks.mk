# ranks.mk - ranks/: several processes that work as one engine, over MPI and, between CUDA devices, NCCL if available.

libkvc_la_SOURCES += \
	ranks/common.c \
	ranks/direct.c \
	ranks/follow.c \
	ranks/mpi_open.c \
	ranks/plan.c \
	ranks/ranks.c \
	ranks/single.c \
	ranks/ways.c

if HAVE_CUDA
libkvc_la_SOURCES += ranks/nccl.c
endif

# A plug-in for each MPI. It contains the few functions of libkvcull that it calls, because a caller may link libkvcull
# statically.
KVC_MPI_SOURCES = ranks/mpi.c ranks/mpi_devices.c ranks/watch.c core/base/assert.c core/base/error.c core/base/printable.c core/ranks/direct.c
KVC_MPI_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -export-symbols-regex '^kvc_mpi_plugin$$'
pkglib_LTLIBRARIES =
if HAVE_OPENMPI
pkglib_LTLIBRARIES += kvcull-mpi-openmpi.la
kvcull_mpi_openmpi_la_SOURCES = $(KVC_MPI_SOURCES)
kvcull_mpi_openmpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(OPENMPI_CPPFLAGS)
kvcull_mpi_openmpi_la_LIBADD = $(OPENMPI_LIBS)
kvcull_mpi_openmpi_la_LDFLAGS = $(KVC_MPI_LDFLAGS)
endif
if HAVE_MPICH
pkglib_LTLIBRARIES += kvcull-mpi-mpich.la
kvcull_mpi_mpich_la_SOURCES = $(KVC_MPI_SOURCES)
kvcull_mpi_mpich_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)
kvcull_mpi_mpich_la_LIBADD = $(MPICH_LIBS)
kvcull_mpi_mpich_la_LDFLAGS = $(KVC_MPI_LDFLAGS)
endif
