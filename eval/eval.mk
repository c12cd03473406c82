# eval.mk - eval/: the tasks of `kvcull eval`, which are part of the program, and the bundled model.

libkvcli_la_SOURCES += \
	eval/answer.c \
	eval/answer.h \
	eval/choose.c \
	eval/converse.c \
	eval/essays.c \
	eval/eval.h \
	eval/fidelity.c \
	eval/fidelity.h \
	eval/fidelity_run.c \
	eval/fit.c \
	eval/grids.c \
	eval/kept.c \
	eval/kept.h \
	eval/list.c \
	eval/merge.c \
	eval/needle.c \
	eval/needle.h \
	eval/needle_demo.c \
	eval/needle_results.c \
	eval/needle_text.c \
	eval/needle_text.h \
	eval/pairs.c \
	eval/prompt.c \
	eval/prompt.h \
	eval/questions.c \
	eval/ranks.c \
	eval/report.c \
	eval/report.h \
	eval/report_collect.c \
	eval/report_curves.c \
	eval/report_depths.c \
	eval/report_leaders.c \
	eval/report_measured.c \
	eval/report_spans.c \
	eval/report_stayed.c \
	eval/report_style.c \
	eval/results.c \
	eval/results.h \
	eval/ruler_niah.c \
	eval/ruler_qa.c \
	eval/ruler_vt.c \
	eval/ruler_words.c \
	eval/samples.c \
	eval/score.c \
	eval/shared.c \
	eval/singly.c \
	eval/singly.h \
	eval/show.c \
	eval/span_table.c \
	eval/spans.c \
	eval/standard.c \
	eval/standard.h \
	eval/tables.c \
	eval/task.h \
	eval/tasks.c \
	eval/text.c \
	eval/windows.c \
	eval/windows.h \
	eval/trace.c \
	eval/trace.h \
	eval/trace_read.c \
	eval/where.c \
	eval/words.c \
	eval/write.c

demodir = $(pkgdatadir)/demo
dist_demo_DATA = data/demo/config.json data/demo/model.safetensors data/demo/tokenizer.json \
	data/demo/tokenizer_config.json data/demo/words.json data/demo/README.md
EXTRA_DIST += tools/train_needle.py tools/demo.sh
