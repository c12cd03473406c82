# serve.mk - serve/: the server of `kvcull serve`, part of the program. The table of fields is also built without it.
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
endif
