# serve.mk - serve/: the server of `kvcull serve`, which is part of the program. The table of fields is built even
# without the server.
libkvcli_la_SOURCES += \
	serve/fields.c \
	serve/refuse.c
if HAVE_SERVER
libkvcli_la_SOURCES += \
	serve/admit.c \
	serve/answer.c \
	serve/begin.c \
	serve/body.c \
	serve/choice.c \
	serve/forecast.c \
	serve/force.c \
	serve/format.c \
	serve/head.c \
	serve/held.c \
	serve/http.c \
	serve/keys.c \
	serve/lengths.c \
	serve/listen.c \
	serve/loop.c \
	serve/main.c \
	serve/message.c \
	serve/messages.c \
	serve/methods.c \
	serve/metrics.c \
	serve/page.c \
	serve/prepare.c \
	serve/progress.c \
	serve/reader.c \
	serve/reader_call.c \
	serve/request.c \
	serve/respond.c \
	serve/route.c \
	serve/share.c \
	serve/slots.c \
	serve/text.c \
	serve/tools.c
libkvcli_la_CPPFLAGS += $(MICROHTTPD_CFLAGS)
libkvcli_la_LIBADD = $(MICROHTTPD_LIBS)
nodist_libkvcli_la_SOURCES = serve/page_pieces.c
CLEANFILES += serve/page_pieces.c
endif

# The page at /. Its sources become a C file. MARKDOWN_JS is the JavaScript library for Markdown that configure found,
# or empty.
page_scripts = $(addprefix $(srcdir)/serve/page/,util.js server.js markdown.js cache.js policy.js chats.js chat.js \
	compare.js main.js)
page_sources = $(srcdir)/serve/page/embed.sh $(srcdir)/serve/page/page.html $(srcdir)/serve/page/page.css $(page_scripts)
EXTRA_DIST += $(page_sources)
serve/page_pieces.c: $(page_sources) $(MARKDOWN_JS) config.status
	$(AM_V_GEN)$(MKDIR_P) serve && \
	$(SHELL) $(srcdir)/serve/page/embed.sh $(srcdir)/serve/page/page.html $(srcdir)/serve/page/page.css '$(MARKDOWN_JS)' \
	$(page_scripts) >$@.tmp && mv $@.tmp $@
