# cli.mk - cli/: the program. It links the shared library and so sees the public header's functions only.
noinst_LTLIBRARIES += libkvcli.la
libkvcli_la_SOURCES = cli/cli.h \
	cli/options.c cli/help.c cli/common.c cli/format.c cli/table.c cli/file.c cli/json.c cli/progress.c \
	cli/generate.c cli/summary.c cli/chat_text.c \
	cli/run.c cli/chat.c
libkvcli_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DKVC_DATADIR='"$(pkgdatadir)"' -DKVC_SOURCE_DATA='"$(abs_top_srcdir)/data"'
