# bench.mk - bench/: programs that measure speed, built with `make bench/linear bench/attention`. No test runs them.
EXTRA_PROGRAMS += bench/linear
CLEANFILES += bench/linear$(EXEEXT)
bench_linear_SOURCES = bench/linear.c
bench_linear_CPPFLAGS = $(AM_CPPFLAGS) $(OPENBLAS_CFLAGS)
bench_linear_LDADD = libkvc.la $(KVC_LIBS) $(OPENBLAS_LIBS)

EXTRA_PROGRAMS += bench/attention
CLEANFILES += bench/attention$(EXEEXT)
bench_attention_SOURCES = bench/attention.c bench/roofline.h
bench_attention_LDADD = libkvc.la $(KVC_LIBS)
EXTRA_DIST += tools/measure.sh tools/beside_llama.py tools/int8_distance.py tools/llama_engine.py tools/ranks_plan.py bench/ranks_speed.py \
	bench/context.py \
	bench/second_turn.py \
	bench/serve_load.py

EXTRA_PROGRAMS += bench/int8
CLEANFILES += bench/int8$(EXEEXT)
bench_int8_SOURCES = bench/int8.c bench/roofline.h
bench_int8_LDADD = libkvc.la $(KVC_LIBS)

EXTRA_PROGRAMS += bench/prefill
CLEANFILES += bench/prefill$(EXEEXT)
bench_prefill_SOURCES = bench/prefill.c bench/roofline.h
bench_prefill_LDADD = libkvc.la $(KVC_LIBS)

EXTRA_PROGRAMS += bench/select
CLEANFILES += bench/select$(EXEEXT)
bench_select_SOURCES = bench/select.c bench/roofline.h
bench_select_LDADD = libkvc.la $(KVC_LIBS)
