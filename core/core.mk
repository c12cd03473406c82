# core.mk - core/: sources of this folder.

libkvc_la_SOURCES += core/types.c core/types.h
libkvc_la_SOURCES += core/canon.h
libkvc_la_SOURCES += core/float.c core/threads.c core/threads.h
