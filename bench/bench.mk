# bench.mk - bench/: measurements of operations (kvcull bench --ops and --table).
libkvc_la_SOURCES += \
	bench/attention.c \
	bench/bandwidth.c \
	bench/layer.c \
	bench/linear.c \
	bench/measure.c \
	bench/operands.c \
	bench/ops_cache.c \
	bench/ops_delta.c \
	bench/ops_entries.c \
	bench/ops_experts.c \
	bench/ops_int8.c \
	bench/ops_policies.c \
	bench/ops_rows.c \
	bench/prompt.c \
	bench/select.c \
	bench/tables.c
