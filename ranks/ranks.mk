# ranks.mk - ranks/: several processes as one engine, over MPI where it is there.

libkvc_la_SOURCES += \
	ranks/common.c \
	ranks/follow.c \
	ranks/plan.c \
	ranks/ranks.c \
	ranks/single.c \
	ranks/ways.c

if HAVE_MPI
noinst_LTLIBRARIES += libkvc_mpi.la
libkvc_mpi_la_SOURCES = ranks/mpi.c
libkvc_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
libkvc_mpi_la_LIBADD = $(MPI_LIBS)
libkvc_la_LIBADD += libkvc_mpi.la
endif
