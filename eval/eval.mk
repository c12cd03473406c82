# eval.mk - eval/: the tasks of `kvcull eval`, part of the program; and the bundled model.

libkvcli_la_SOURCES += eval/eval.h eval/tasks.c eval/needle.c eval/needle.h eval/needle_results.c \
	eval/needle_text.c eval/needle_text.h eval/fidelity.c eval/write.c

demodir = $(pkgdatadir)/demo
dist_demo_DATA = data/demo/config.json data/demo/model.safetensors data/demo/tokenizer.json \
	data/demo/tokenizer_config.json data/demo/words.json data/demo/README.md
EXTRA_DIST += tools/train_needle.py tools/demo.sh
