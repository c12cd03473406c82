# fuzz.mk - `make fuzz` builds every tests/fuzz/fuzz_<name>.c with clang's libFuzzer, AddressSanitizer and UBSan and runs
# each for FUZZ_SECONDS from the seeds in tests/fuzz/seeds/<name>/. FUZZ_TARGETS="gguf chat" runs some only.
FUZZ_SECONDS = 60
FUZZ_TARGETS =

fuzz:
	@FUZZ_CC='$(FUZZ_CC)' $(SHELL) $(srcdir)/tests/fuzz/run.sh '$(abs_top_srcdir)' '$(FUZZ_SECONDS)' $(FUZZ_TARGETS)
.PHONY: fuzz

EXTRA_DIST += tests/fuzz/run.sh tests/fuzz/gguf.dict tests/fuzz/safetensors.dict tests/fuzz/policy.dict tests/fuzz/seeds

clean-local:
	rm -rf fuzz-build tests/cache

# In `make check`: every target over its seeds, cut short and changed here and there.
if HAVE_CMOCKA
check_PROGRAMS += tests/fuzz/seeds_config tests/fuzz/seeds_gguf tests/fuzz/seeds_safetensors tests/fuzz/seeds_tokenizer \
	tests/fuzz/seeds_vocabulary tests/fuzz/seeds_policy tests/fuzz/seeds_lists tests/fuzz/seeds_run \
	tests/fuzz/seeds_replay tests/fuzz/seeds_words tests/fuzz/seeds_jinja tests/fuzz/seeds_pieces tests/fuzz/seeds_session \
	tests/fuzz/seeds_grammar
tests_fuzz_seeds_config_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_config.c
tests_fuzz_seeds_config_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_gguf_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_gguf.c
tests_fuzz_seeds_gguf_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_safetensors_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_safetensors.c
tests_fuzz_seeds_safetensors_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_tokenizer_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_tokenizer.c
tests_fuzz_seeds_tokenizer_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_vocabulary_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_vocabulary.c
tests_fuzz_seeds_vocabulary_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_jinja_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_jinja.c
tests_fuzz_seeds_jinja_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_policy_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_policy.c
tests_fuzz_seeds_policy_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_lists_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_lists.c
tests_fuzz_seeds_lists_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_run_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_run.c
tests_fuzz_seeds_run_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_replay_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_replay.c
tests_fuzz_seeds_replay_LDADD = libkvcli.la $(KVC_TEST_LIBS)
tests_fuzz_seeds_words_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_words.c
tests_fuzz_seeds_words_LDADD = libkvcli.la $(KVC_TEST_LIBS)
tests_fuzz_seeds_pieces_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_pieces.c
tests_fuzz_seeds_pieces_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_session_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_session.c
tests_fuzz_seeds_session_LDADD = $(KVC_TEST_LIBS)
tests_fuzz_seeds_grammar_SOURCES = tests/fuzz/over_seeds.c tests/fuzz/fuzz_grammar.c
tests_fuzz_seeds_grammar_LDADD = $(KVC_TEST_LIBS)
endif
