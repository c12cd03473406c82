# bench.mk - bench/: programs that measure speed. `make bench/linear`; no test runs them.
EXTRA_PROGRAMS += bench/linear
CLEANFILES += bench/linear$(EXEEXT)
bench_linear_SOURCES = bench/linear.c
bench_linear_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
bench_linear_LDADD = libkvc.la $(KVC_LIBS)
