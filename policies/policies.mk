# policies.mk - policies/: sources of this folder.

libkvc_la_SOURCES += policies/policies.h policies/list.c policies/budget.c policies/window_scores.c
libkvc_la_SOURCES += policies/accumulated.c
libkvc_la_SOURCES += policies/full.c
libkvc_la_SOURCES += policies/window.c
libkvc_la_SOURCES += policies/streaming.c
libkvc_la_SOURCES += policies/h2o.c
libkvc_la_SOURCES += policies/scissorhands.c
libkvc_la_SOURCES += policies/keyformer.c
libkvc_la_SOURCES += policies/snapkv.c
libkvc_la_SOURCES += policies/pyramidkv.c
libkvc_la_SOURCES += policies/adakv.c
libkvc_la_SOURCES += policies/cake.c
libkvc_la_SOURCES += policies/fastkv.c
libkvc_la_SOURCES += policies/lacache.c
libkvc_la_SOURCES += policies/duo.c
libkvc_la_SOURCES += policies/morphkv.c
libkvc_la_SOURCES += policies/dapq.c
libkvc_la_SOURCES += policies/take.c
libkvc_la_SOURCES += policies/tova.c
libkvc_la_SOURCES += policies/select_sizes.h policies/select_sizes.c
libkvc_la_SOURCES += policies/quest.c
libkvc_la_SOURCES += policies/sparq.c
libkvc_la_SOURCES += policies/hsa.c
libkvc_la_SOURCES += policies/rocketkv.c
libkvc_la_SOURCES += policies/topk.c
