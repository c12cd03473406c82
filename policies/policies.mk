# policies.mk - policies/: sources of this folder.

libkvc_la_SOURCES += policies/policies.h policies/list.c policies/budget.c
libkvc_la_SOURCES += policies/full.c policies/window.c policies/streaming.c policies/snapkv.c policies/morphkv.c policies/dapq.c policies/take.c
