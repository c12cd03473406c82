# cli.mk - cli/: the program. It links the shared library, so it can call only the functions of the public headers.
noinst_LTLIBRARIES += libkvcli.la
libkvcli_la_SOURCES = \
	cli/chat.c \
	cli/chat_commands.c \
	cli/chat_text.c \
	cli/collect.c \
	cli/commands.c \
	cli/common.c \
	cli/completion.c \
	cli/convert.c \
	cli/distance.c \
	cli/edit_draw.c \
	cli/edit_keys.c \
	cli/edit_text.c \
	cli/eval.c \
	cli/file.c \
	cli/format.c \
	cli/generate.c \
	cli/grammar.c \
	cli/help.c \
	cli/history.c \
	cli/json.c \
	cli/logits.c \
	cli/longrope.c \
	cli/options.c \
	cli/outputs.c \
	cli/perplexity.c \
	cli/progress.c \
	cli/ranks.c \
	cli/reader.c \
	cli/replay.c \
	cli/roff.c \
	cli/run.c \
	cli/saved.c \
	cli/serve.c \
	cli/signals.c \
	cli/summary.c \
	cli/table.c \
	cli/temporary.c \
	cli/terminal.c \
	cli/tokenize.c \
	cli/trace.c \
	cli/utf8.c \
	cli/bench/bench.c \
	cli/bench/print.c \
	cli/bench/run.c \
	cli/bench/tables.c \
	cli/info/families.c \
	cli/info/info.c \
	cli/info/manual.c \
	cli/info/markdown.c \
	cli/info/methods.c \
	cli/info/model.c \
	cli/info/parts.c \
	cli/info/available.c \
	cli/info/rules.c \
	cli/verify/hashes.c \
	cli/verify/methods.c \
	cli/verify/specs.c \
	cli/verify/verify.c
# The shared library exports no functions of core.
libkvcli_la_SOURCES += core/base/assert.c
libkvcli_la_CPPFLAGS = $(AM_CPPFLAGS)
if !RELOCATABLE
libkvcli_la_CPPFLAGS += -DKVC_DATADIR='"$(pkgdatadir)"' -DKVC_SOURCE_DATA='"$(abs_top_srcdir)/data"'
endif

# hashes.txt: hashes of ref's results, for kvcull verify --against stored; a test fails if they are out of date.
# tokens.txt: token ids for policies that need a file of them.
dist_pkgdata_DATA = data/hashes.txt data/tokens.txt
.PHONY: hashes
hashes: kvcull
	./kvcull verify --write-hashes $(srcdir)/data/hashes.txt

bin_PROGRAMS += kvcull
kvcull_SOURCES = cli/main.c
kvcull_LDFLAGS = $(PROGRAM_LDFLAGS)
if RELOCATABLE
kvcull_LDFLAGS += -Wl,-rpath,'$$ORIGIN/../lib'
endif
# libtool does not record an archive, such as CUDA's runtime, as a dependency of a static libkvcull or of libkvcli.
kvcull_LDADD = libkvcli.la libkvcull.la $(KVC_LIBS) $(MICROHTTPD_LIBS) $(CUDA_LIBS)
