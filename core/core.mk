# core.mk - the sources of core/ by folder. docs/explanation/design.md describes them; Makefile.am finds the headers.

# Files that every backend may include.
libkvc_la_SOURCES += \
	core/base/assert.c \
	core/base/budget_split.c \
	core/base/decimal.c \
	core/base/error.c \
	core/base/float.c \
	core/base/hash.c \
	core/base/library.c \
	core/base/log.c \
	core/base/nearest.c \
	core/base/printable.c \
	core/base/threads.c \
	core/base/trig.c \
	core/base/types.c

# Several processes as one engine.
libkvc_la_SOURCES += \
	core/ranks/direct.c \
	core/ranks/packet.c \
	core/ranks/ranks.c \
	core/ranks/split.c

# Computation: the operations of a forward pass, and the lists of entries.
libkvc_la_SOURCES += \
	core/engine/advice.c \
	core/engine/batch.c \
	core/engine/archive.c \
	core/engine/cache.c \
	core/engine/cache_lists.c \
	core/engine/engine.c \
	core/engine/delta.c \
	core/engine/experts.c \
	core/engine/finite.c \
	core/engine/growable.c \
	core/engine/linear.c \
	core/engine/log_set.c \
	core/engine/logprobs.c \
	core/engine/look.c \
	core/engine/network.c \
	core/engine/open_device.c \
	core/engine/runner.c \
	core/engine/runner_memory.c \
	core/engine/sampler.c \
	core/engine/sharded.c \
	core/engine/trace.c \
	core/engine/trace_outputs.c \
	core/engine/trace_write.c \
	core/engine/extra_slots.c

# Sessions: their state, prompts (prompt.c, pass.c), decode steps (decode.c), evictions (evict.c).
libkvc_la_SOURCES += \
	core/engine/alone.c \
	core/engine/cache_positions.c \
	core/engine/centre.c \
	core/engine/decode.c \
	core/engine/draft.c \
	core/engine/evict.c \
	core/engine/fill.c \
	core/engine/fork.c \
	core/engine/participants.c \
	core/engine/pass.c \
	core/engine/pipeline.c \
	core/engine/pipeline_keep.c \
	core/engine/pipeline_passes.c \
	core/engine/predictor.c \
	core/engine/prepare_step.c \
	core/engine/prompt.c \
	core/engine/prompt_many.c \
	core/engine/prune_rows.c \
	core/engine/record.c \
	core/engine/replay.c \
	core/engine/rows.c \
	core/engine/select.c \
	core/engine/session.c \
	core/engine/session_lists.c \
	core/engine/state.c \
	core/engine/together.c \
	core/engine/expired.c

# Policy strings, and the functions that a stage function may call.
libkvc_la_SOURCES += \
	core/stage/policy.c \
	core/stage/policy_layers.c \
	core/stage/policy_methods.c \
	core/stage/policy_stages.c \
	core/stage/policy_text.c \
	core/stage/policy_values.c \
	core/stage/stage.c \
	core/stage/stage_columns.c \
	core/stage/stage_entries.c \
	core/stage/stage_predict.c \
	core/stage/stage_probe.c \
	core/stage/stage_queries.c \
	core/stage/stage_ranks.c \
	core/stage/stage_series.c \
	core/stage/stage_leverage.c \
	core/stage/stage_merge.c \
	core/stage/stage_channels.c \
	core/stage/stage_call.c

# Forecasts of a policy's memory and reads.
libkvc_la_SOURCES += \
	core/forecast/estimate.c \
	core/forecast/estimator.c \
	core/forecast/estimate_prompt.c \
	core/forecast/estimate_steps.c \
	core/forecast/formula.c \
	core/forecast/ledger.c

# Checks of operations against the reference.
libkvc_la_SOURCES += \
	core/check/inject.c \
	core/check/verify.c \
	core/check/verify_inject.c \
	core/check/verify_cache.c \
	core/check/verify_lists.c \
	core/check/verify_memory.c \
	core/check/verify_rows.c \
	core/check/verify_delta.c \
	core/check/verify_experts.c \
	core/check/verify_int8.c \
	core/check/verify_int16.c \
	core/check/verify_scores.c \
	core/check/verify_entries.c \
	core/check/verify_leverage.c \
	core/check/verify_merge.c \
	core/check/verify_channels.c \
	core/check/verify_keep.c \
	core/check/verify_pages.c \
	core/check/verify_select.c \
	core/check/verify_twins.c

# The list of backends.
libkvc_la_SOURCES += \
	backends/list.c
