# fuzz.mk - `make fuzz` builds every tests/fuzz/fuzz_<name>.c with clang's libFuzzer, AddressSanitizer and UBSan and runs
# each for FUZZ_SECONDS from the seeds in tests/fuzz/seeds/<name>/. FUZZ_TARGETS="gguf chat" runs some only.
FUZZ_SECONDS = 60
FUZZ_TARGETS =

fuzz:
	@FUZZ_CC='$(FUZZ_CC)' $(SHELL) $(srcdir)/tests/fuzz/run.sh '$(abs_top_srcdir)' '$(FUZZ_SECONDS)' $(FUZZ_TARGETS)
.PHONY: fuzz

EXTRA_DIST += tests/fuzz

clean-local:
	rm -rf fuzz-build
