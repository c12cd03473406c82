# models.mk - models/: sources of this folder.

libkvc_la_SOURCES += models/gguf.c models/gguf.h models/gguf_file.h models/gguf_value.c models/map.c models/map.h
