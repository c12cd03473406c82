# examples.mk - four short programs that use only the installed header and the shared library.

noinst_PROGRAMS += examples/generate examples/sessions examples/policy examples/questions
examples_generate_SOURCES = examples/generate.c
examples_generate_LDADD = libkvcull.la $(ARCHIVE_LIBS)
examples_sessions_SOURCES = examples/sessions.c
examples_sessions_LDADD = libkvcull.la $(ARCHIVE_LIBS)
examples_questions_SOURCES = examples/questions.c
examples_questions_LDADD = libkvcull.la $(ARCHIVE_LIBS)
examples_policy_SOURCES = examples/policy.c
examples_policy_LDADD = libkvcull.la $(ARCHIVE_LIBS) -lm
SHELL_TESTS += examples/check.sh
SLURM_EXAMPLES = \
	examples/slurm/bench.sh \
	examples/slurm/chat.sh \
	examples/slurm/eval.sh \
	examples/slurm/logits.sh \
	examples/slurm/perplexity.sh \
	examples/slurm/run.sh \
	examples/slurm/serve.sh \
	examples/slurm/verify.sh
EXTRA_DIST += examples/check.sh examples/eval_array.sh $(SLURM_EXAMPLES)
