# policies.mk - policies/: the list of built-in methods. To add a method, write its file and add a line here.
# tools/policy_list.sh finds what each file defines and makes policies/list.def. `kvcull info`, the tests and the pages
# use the order of this list.
policy_files = \
	policies/full.c \
	policies/window.c \
	policies/streaming.c \
	policies/random.c \
	policies/knorm.c \
	policies/keydiff.c \
	policies/qfilter.c \
	policies/dms.c \
	policies/kvzap.c \
	policies/fastkvzip.c \
	policies/block.c \
	policies/h2o.c \
	policies/scissorhands.c \
	policies/keyformer.c \
	policies/snapkv.c \
	policies/snapkv_decode.c \
	policies/rkv.c \
	policies/triattention.c \
	policies/expected.c \
	policies/cap.c \
	policies/chunkkv.c \
	policies/criticalkv.c \
	policies/cam.c \
	policies/merging.c \
	policies/think.c \
	policies/compactor.c \
	policies/cur.c \
	policies/pyramidkv.c \
	policies/adakv.c \
	policies/cake.c \
	policies/lagkv.c \
	policies/fastkv.c \
	policies/finch.c \
	policies/simlayerkv.c \
	policies/lacache.c \
	policies/duo.c \
	policies/morphkv.c \
	policies/dapq.c \
	policies/kvzip.c \
	policies/kvcompose.c \
	policies/take.c \
	policies/tova.c \
	policies/quest.c \
	policies/sparq.c \
	policies/hsa.c \
	policies/rocketkv.c \
	policies/topk.c

# Code that several methods share.
libkvc_la_SOURCES += $(policy_files) policies/query_stats.h \
	policies/accumulated.c \
	policies/budget.c \
	policies/chunk_gate.c \
	policies/ranking.c \
	policies/entry_scores.c \
	policies/every_steps.c \
	policies/head_shares.c \
	policies/list.c \
	policies/option_file.c \
	policies/query_stats.c \
	policies/select_sizes.c \
	policies/window_scores.c

CLEANFILES += policies/list.def
policies/list.lo: policies/list.def
policies/list.def: policies/policies.mk tools/policy_list.sh $(policy_files)
	$(AM_V_GEN)$(MKDIR_P) policies && $(SHELL) $(srcdir)/tools/policy_list.sh $(srcdir) >$@.tmp && mv $@.tmp $@
