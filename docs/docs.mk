# docs.mk - manual pages, docs/methods.md and the README's table of methods, made from the program's own tables by
# tools/manual.sh and committed; the manual pages are installed.
# A test tells when a page is old; `make manual` writes them again.
dist_man_MANS += docs/man/kvcull.1 docs/man/kvcull-bench.1 docs/man/kvcull-chat.1 docs/man/kvcull-convert.1 \
	docs/man/kvcull-eval.1 docs/man/kvcull-eval-fidelity.1 docs/man/kvcull-eval-needle.1 docs/man/kvcull-info.1 \
	docs/man/kvcull-logits.1 docs/man/kvcull-mkmodel.1 docs/man/kvcull-perplexity.1 docs/man/kvcull-replay.1 \
	docs/man/kvcull-run.1 docs/man/kvcull-tokenize.1 docs/man/kvcull-verify.1 docs/man/kvcull-methods.7

.PHONY: manual
manual: kvcull
	$(SHELL) $(srcdir)/tools/manual.sh ./kvcull $(srcdir) $(srcdir)
