# models.mk - models/: sources of this folder.

libkvc_la_SOURCES += models/gguf.c models/gguf.h models/gguf_file.h models/gguf_value.c models/map.c models/map.h
libkvc_la_SOURCES += models/config.c models/config.h models/config_gguf.c models/family.c models/names.c models/names.h \
	models/network.c models/network.h models/network_gguf.c models/rope.c
