# ranks.mk - ranks/: several processes that work as one engine, over MPI and, between CUDA devices, NCCL if available.

libkvc_la_SOURCES += \
	ranks/common.c \
	ranks/direct.c \
	ranks/follow.c \
	ranks/list.c \
	ranks/plan.c \
	ranks/ranks.c \
	ranks/single.c \
	ranks/ways.c

if HAVE_MPI
noinst_LTLIBRARIES += libkvc_mpi.la
libkvc_mpi_la_SOURCES = ranks/mpi.c ranks/mpi_devices.c ranks/watch.c
libkvc_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
libkvc_mpi_la_LIBADD = $(MPI_LIBS)
libkvc_la_LIBADD += libkvc_mpi.la
endif
if HAVE_NCCL
noinst_LTLIBRARIES += libkvc_nccl.la
libkvc_nccl_la_SOURCES = ranks/nccl.c
libkvc_nccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(NCCL_CPPFLAGS) $(CUDA_CPPFLAGS)
libkvc_nccl_la_LIBADD = $(NCCL_LIBS)
libkvc_la_LIBADD += libkvc_nccl.la
endif
