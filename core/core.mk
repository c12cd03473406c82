# core.mk - core/: sources of this folder.

libkvc_la_SOURCES += core/types.c core/types.h
libkvc_la_SOURCES += core/canon.h
libkvc_la_SOURCES += core/float.c core/threads.c core/threads.h
libkvc_la_SOURCES += core/ops.h core/model.h core/error.c core/printable.c core/hash.c core/engine.c core/engine.h core/policy.c core/policy_values.c core/policy_stages.c
libkvc_la_SOURCES += core/policy.h core/cache.c core/cache.h core/spares.c core/spares.h core/runner.c core/runner.h core/session.c
libkvc_la_SOURCES += core/session.h core/step.c core/finite.c core/finite.h core/fill.c core/fill.h core/turn.c core/stage.c core/keep.c core/select.c core/places.c core/methods.c core/replay.c core/sampler.c core/estimate.c core/ledger.c core/ledger.h core/formula.c
libkvc_la_SOURCES += core/trig.c core/trig.h core/model.c
libkvc_la_SOURCES += core/backends.c core/backends.h
libkvc_la_SOURCES += core/verify.c core/verify.h core/verify_break.c core/verify_memory.c core/verify_lists.c
libkvc_la_SOURCES += core/verify_rows.c core/verify_cache.c
libkvc_la_SOURCES += core/verify_weights.c core/verify_scores.c core/verify_select.c
libkvc_la_SOURCES += core/advice.c core/advice.h core/measure.c core/measure.h core/measure_rows.c core/measure_cache.c core/measure_policies.c core/measure_long.c
