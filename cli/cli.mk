# cli.mk - cli/: the program. It links the shared library and so sees the public header's functions only.
noinst_LTLIBRARIES += libkvcli.la
libkvcli_la_SOURCES = cli/cli.h \
	cli/options.c cli/help.c cli/roff.c cli/roff.h cli/common.c cli/format.c cli/table.c cli/file.c cli/json.c cli/utf8.c cli/progress.c cli/signals.c \
	cli/generate.c cli/longrope.c cli/summary.c cli/chat_text.c cli/commands.c \
	cli/run.c cli/chat.c cli/distance.c cli/logits.c cli/tokenize.c cli/perplexity.c cli/convert.c cli/replay.c cli/eval.c \
	cli/info.h cli/info.c cli/info_methods.c cli/info_manual.c cli/info_model.c cli/info_rules.c cli/info_room.c \
	cli/verify.h cli/verify.c cli/verify_methods.c cli/verify_specs.c cli/verify_hashes.c \
	cli/bench.h cli/bench.c cli/bench_run.c cli/bench_print.c cli/bench_ops.c cli/bench_machine.c
libkvcli_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DKVC_DATADIR='"$(pkgdatadir)"' -DKVC_SOURCE_DATA='"$(abs_top_srcdir)/data"'

# What ref computes, for kvcull verify --against stored; a test tells when it is old. Token ids for policies that want
# a file of them.
dist_pkgdata_DATA = data/hashes.txt data/tokens.txt
.PHONY: hashes
hashes: kvcull
	./kvcull verify --write-hashes $(srcdir)/data/hashes.txt

bin_PROGRAMS += kvcull
kvcull_SOURCES = cli/main.c
kvcull_LDADD = libkvcli.la libkvcull.la $(JANSSON_LIBS)
